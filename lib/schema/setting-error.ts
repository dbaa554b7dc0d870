/** Errors about settings of a server. In an app of your own, these are options of a plugin. */

/** By the names of settings. */
const options: Readonly<Record<string, string>> = { SECRETS_MASTER_KEY: '`masterKey`', SECRETS_PREVIOUS_KEYS: '`previousKeys`' }

/** A setting is missing or wrong. */
export class SettingError extends Error {
  readonly #fault: string

  /**
   * @param fault names settings; it must contain no part of a secret
   * @param alternative the end of the sentence for a server: a change of its document. Default: none
   */
  constructor (fault: string, alternative = '') {
    super(fault + alternative)
    this.#fault = fault
  }

  /** The fault with the names of options. */
  get ofOptions (): string {
    return this.#fault.replace(/\bSECRETS_\w+/g, (name) => options[name] ?? name)
  }
}
