/** Waits for readers that are slower than what is sent to them. */

const pauseMs = 20 // between looks

/** Resolves when the function returns false. */
export async function whileTrue (isBusy: () => boolean): Promise<void> {
  while (isBusy()) await new Promise((resolve) => setTimeout(resolve, pauseMs))
}
