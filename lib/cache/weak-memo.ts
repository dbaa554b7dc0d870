/**
 * Compiled schemas and routes, shared by all with the same text while one of them is in use; null is not kept. A process has many servers,
 * tenants and versions of documents with equal ones, and compiling is most of their cost.
 */
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
