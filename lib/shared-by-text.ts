/**
 * What is compiled of a schema, shared by all schemas that are the same text, for as long as somebody holds it: a process
 * has many servers, routes and versions of documents whose schemas are alike, and compiling is most of what each costs.
 */
export function sharedByText<Made extends object> (): (text: string, make: () => Made) => Made {
  const kept = new Map<string, WeakRef<Made>>()
  const forgotten = new FinalizationRegistry<string>((text) => {
    // It may have been made anew.
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
