/**
 * The options of an LRUCache of so many entries at most. Its own `max` takes the room of all of them from the start, and
 * the time to fill it: for 100,000 entries 3 MB and 10 ms.
 */
export function lruOptions (entries: number): { readonly maxSize: number, readonly sizeCalculation: () => number } {
  return { maxSize: entries, sizeCalculation: one }
}

function one (): number {
  return 1
}
