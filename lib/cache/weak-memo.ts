/**
 * Compiled schemas, shared by all schemas with the same text while one of them is in use. A process has many servers, routes and versions
 * of documents with equal schemas, and compiling is most of their cost.
 */
export function sharedByText<Made extends object> (): (text: string, make: () => Made) => Made {
  const kept = new Map<string, WeakRef<Made>>()
  const forgotten = new FinalizationRegistry<string>((text) => {
    // Another entry may have replaced it.
    if (kept.get(text)?.deref() === undefined) kept.delete(text)
  })
  return (text, make) => {
    const known = kept.get(text)?.deref()
    if (known !== undefined) return known
    const made = make()
    kept.set(text, new WeakRef(made))
    forgotten.register(made, text)
    return made
  }
}
