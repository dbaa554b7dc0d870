/** The heap of a server that has its process to itself. */
import { setFlagsFromString } from 'node:v8'

const growth = 200 // percent of the memory in use

/**
 * Delays full garbage collections until the heap has grown to three times the memory in use. While a process is often idle, V8 collects
 * after growth by a tenth. Large requests of one tenant then cause several collections a second, each of which pauses all tenants and
 * takes up other cores. `--max-old-space-size` still bounds the heap.
 */
export function growHeap (): void {
  setFlagsFromString(`--heap-growing-percent=${growth}`)
}
