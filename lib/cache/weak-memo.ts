/** Memoizes by text: servers and tenants with the same text share one object while it is in use. `null` is not cached. */
export function sharedByText<Made extends object | null> (): (text: string, make: () => Made) => Made {
  const kept = new Map<string, WeakRef<NonNullable<Made>>>()
  const forgotten = new FinalizationRegistry<string>((text) => {
    // Another entry may have replaced it.
    if (kept.get(text)?.deref() === undefined) kept.delete(text)
  })
  return (text, make) => {
    const known = kept.get(text)?.deref()
    if (known !== undefined) return known
    const made = make()
    if (made !== null) {
      kept.set(text, new WeakRef(made))
      forgotten.register(made, text)
    }
    return made
  }
}

/** Calls the function once for each object, and keeps its result as long as the object. */
export function oncePerObject<Given extends object, Made extends NonNullable<unknown>> (make: (given: Given) => Made) {
  const kept = new WeakMap<Given, Made>()
  return (given: Given): Made => {
    const known = kept.get(given)
    if (known !== undefined) return known
    const made = make(given)
    kept.set(given, made)
    return made
  }
}
