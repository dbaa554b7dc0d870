/** Sizes for people: `1.5 MB`. */

const units = ['B', 'KB', 'MB', 'GB', 'TB', 'PB'] as const

/** In the largest unit of which there is one, 1,024 of the next smaller; at most two decimals. */
export function bytesText (bytes: number): string {
  let value = bytes
  let index = 0
  // What rounds to 1,024 of a unit is 1 of the next.
  while (index < units.length - 1 && Number(value.toFixed(2)) >= 1024) {
    value /= 1024
    index++
  }
  return `${Number(value.toFixed(2))} ${units[index] ?? ''}`
}
