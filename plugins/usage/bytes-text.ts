/** Readable sizes: `1.5 MB`. */

const units = ['B', 'KB', 'MB', 'GB', 'TB', 'PB'] as const

/** In the largest unit with a value of 1 or more, by powers of 1,024; at most two decimals. */
export function bytesText (bytes: number): string {
  let value = bytes
  let index = 0
  // A value that rounds to 1,024 of a unit is 1 of the next.
  while (index < units.length - 1 && Number(value.toFixed(2)) >= 1024) {
    value /= 1024
    index++
  }
  return `${Number(value.toFixed(2))} ${units[index] ?? ''}`
}
