/** Waits for slow readers. */

const pauseMs = 20 // ms between checks

/** Resolves when the function returns false. */
export async function whileTrue (isBusy: () => boolean): Promise<void> {
  while (isBusy()) await new Promise((resolve) => setTimeout(resolve, pauseMs))
}
