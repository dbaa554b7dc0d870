/**
 * Takes the place of the package async-hook-domain in the bundle of tap (compile.ts). tap attributes errors that a test does not catch
 * with it. The package observes the destruction of every promise, which takes 6 % of the CPU time of a run.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { addIgnoredPackage } from '@tapjs/stack'

// The bundle is within the package "tap". Stacks of failed tests leave out its code, as they leave out that of "@tapjs".
addIgnoredPackage('tap')

type Source = 'unhandledRejection' | 'uncaughtException'

const domains = new AsyncLocalStorage<Domain>()

/** Gets the uncaught errors of code that runs in the scope of its creation. After it is destroyed, its parent gets them. */
export class Domain {
  readonly #parent = domains.getStore()
  #isDestroyed = false

  constructor (readonly onerror: (error: unknown, source: Source) => void) {
    domains.enterWith(this)
  }

  destroy (): void {
    this.#isDestroyed = true
  }

  /** The domain of the running code. */
  static get current (): Domain | undefined {
    let domain = domains.getStore()
    while (domain !== undefined && domain.#isDestroyed) domain = domain.#parent
    return domain
  }
}

/** Returns false if the error has no domain, or the test has listeners of its own. */
function handle (error: unknown, source: Source): boolean {
  const domain = Domain.current
  if (domain === undefined || process.listenerCount(source) > 0) return false
  domain.onerror(error, source)
  return true
}

process.on('uncaughtExceptionMonitor', (error, source) => {
  if (process.hasUncaughtExceptionCaptureCallback() || !handle(error, source)) return
  // Only this one is handled.
  process.setUncaughtExceptionCaptureCallback(() => process.setUncaughtExceptionCaptureCallback(null))
})
