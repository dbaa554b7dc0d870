/** Repeats the work, which resolves with the ms until its next run and never rejects. The result ends it, and waits for running work. */
export function repeat (work: () => Promise<number>): () => Promise<void> {
  let hasEnded = false
  let timer: NodeJS.Timeout | undefined
  let running = run()

  async function run (): Promise<void> {
    const pause = await work()
    if (hasEnded) return
    timer = setTimeout(() => {
      running = run()
    }, pause).unref()
  }

  return async () => {
    hasEnded = true
    clearTimeout(timer)
    await running
  }
}
