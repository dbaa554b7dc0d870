/** Throws if an option is not a whole number within its bounds; `option` is its name for the caller. */
export function requireWhole (option: string, value: number, least: number, most: number): void {
  if (!Number.isSafeInteger(value) || value < least || value > most) {
    throw new Error(`${option} is ${value}: expected a whole number from ${least} to ${most}`)
  }
}
