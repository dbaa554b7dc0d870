/**
 * Values that are in memory for nearly every request and are otherwise read from the database or another service. With a value in memory,
 * hooks continue without a promise.
 */

/** Calls `next` with the value: at once, or when the promise resolves. */
export function whenKnown<Value, Result> (
  value: Value | Promise<Value>,
  next: (value: Value) => Result | Promise<Result>
): Result | Promise<Result> {
  return value instanceof Promise ? value.then(next) : next(value)
}

/** The same for a hook, whose `done` is called after `next`. Throws the error of `next` if the value is in memory. */
export function hookWhenKnown<Value> (
  value: Value | Promise<Value>,
  next: (value: Value) => unknown,
  done: (error?: Error) => void
): void {
  if (value instanceof Promise) {
    value.then(next).then(() => done(), done)
    return
  }
  next(value)
  done()
}
