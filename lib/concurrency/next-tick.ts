/**
 * Keeps `process.nextTick` fast. V8 discards the hidden class of its objects if none is alive during several full collections. From then on
 * each call takes five times as long (Node 20, 22 and 24), until the process ends. Node makes about seven calls for one request.
 */
import { executionAsyncResource } from 'node:async_hooks'

/** One object of `process.nextTick`, which keeps their hidden class alive. */
let kept: object | undefined

export function keepNextTickFast (): void {
  if (kept !== undefined) return
  process.nextTick(() => {
    kept = executionAsyncResource()
  })
}
