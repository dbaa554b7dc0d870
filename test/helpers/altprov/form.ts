/** Bodies and query strings as Stripe parses them: `a[b][0][c]=x`; and its errors for invalid ones. */

export type Form = string | FormList | FormMap
export interface FormMap {
  readonly [name: string]: Form
}
export interface FormList extends ReadonlyArray<Form> {}

/** An error in Stripe's form. */
export class Refusal extends Error {
  readonly status: number
  readonly type: string
  readonly code: string | undefined
  readonly param: string | undefined

  constructor (
    status: number,
    message: string,
    { type = 'invalid_request_error', code, param }: { type?: string, code?: string, param?: string } = {}
  ) {
    super(message)
    this.status = status
    this.type = type
    this.code = code
    this.param = param
  }

  toBody (): string {
    return JSON.stringify({ error: { code: this.code, message: this.message, param: this.param, type: this.type } })
  }
}

type Draft = Map<string, Draft | string>

export function parseForm (text: string): FormMap {
  const draft: Draft = new Map()
  for (const [name, value] of new URLSearchParams(text)) {
    const keys = [name.replace(/\[.*$/s, ''), ...[...name.matchAll(/\[([^\]]*)\]/g)].map(([, key = '']) => key)]
    let at = draft
    for (const key of keys.slice(0, -1)) {
      const next = at.get(key) ?? new Map<string, Draft | string>()
      if (typeof next === 'string') throw new Refusal(400, `Invalid object: ${name}`)
      at.set(key, next)
      at = next
    }
    const last = keys.at(-1) ?? ''
    at.set(last === '' ? String(at.size) : last, value)
  }
  const form = finished(draft)
  if (typeof form === 'string' || isList(form)) return {}
  return form
}

function finished (draft: Draft | string): Form {
  if (typeof draft === 'string') return draft
  const entries = [...draft].map(([name, value]) => [name, finished(value)] as const)
  const isNumbered = entries.length > 0 && entries.every(([name], index) => name === String(index))
  return isNumbered ? entries.map(([, value]) => value) : Object.fromEntries(entries)
}

function isList (form: Form | undefined): form is FormList {
  return Array.isArray(form)
}

/** The parameters of one object. The endpoint must read each: `done` rejects parameters that were not read. */
export class Params {
  readonly #form: FormMap
  readonly #path: string
  readonly #asked = new Set<string>()

  constructor (form: FormMap, path = '') {
    this.#form = form
    this.#path = path
  }

  has (name: string): boolean {
    return this.#value(name) !== undefined
  }

  text (name: string): string | undefined {
    const value = this.#value(name)
    if (value === undefined || typeof value === 'string') return value
    throw new Refusal(400, `Invalid string: ${this.#pathOf(name)}`, { param: this.#pathOf(name) })
  }

  required (name: string): string {
    const value = this.text(name)
    if (value === undefined || value === '') {
      throw new Refusal(400, `Missing required param: ${this.#pathOf(name)}.`, { code: 'parameter_missing', param: this.#pathOf(name) })
    }
    return value
  }

  integer (name: string): number | undefined {
    const value = this.text(name)
    if (value === undefined) return undefined
    if (!/^\d{1,12}$/.test(value)) {
      throw new Refusal(400, `Invalid integer: ${value}`, { code: 'parameter_invalid_integer', param: this.#pathOf(name) })
    }
    return Number(value)
  }

  flag (name: string): boolean | undefined {
    const value = this.oneOf(name, ['true', 'false'])
    return value === undefined ? undefined : value === 'true'
  }

  oneOf<T extends string> (name: string, values: readonly T[]): T | undefined {
    const value = this.text(name)
    if (value === undefined) return undefined
    const found = values.find((one) => one === value)
    if (found === undefined) {
      throw new Refusal(400, `Invalid ${this.#pathOf(name)}: must be one of ${values.join(', ')}`, { param: this.#pathOf(name) })
    }
    return found
  }

  texts (name: string): string[] {
    const value = this.#value(name) ?? []
    if (!isList(value)) throw new Refusal(400, 'Invalid array', { param: this.#pathOf(name) })
    return value.map((one) => typeof one === 'string' ? one : '')
  }

  map (name: string): Record<string, string> | undefined {
    const value = this.#value(name)
    if (value === undefined) return undefined
    if (typeof value === 'string' || isList(value)) throw new Refusal(400, 'Invalid object', { param: this.#pathOf(name) })
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, typeof one === 'string' ? one : '']))
  }

  object<T> (name: string, read: (params: Params) => T): T | undefined {
    const value = this.#value(name)
    if (value === undefined) return undefined
    return this.#read(value, this.#pathOf(name), read)
  }

  list<T> (name: string, read: (params: Params) => T): T[] | undefined {
    const value = this.#value(name)
    if (value === undefined || value === '') return undefined
    if (!isList(value)) throw new Refusal(400, 'Invalid array', { param: this.#pathOf(name) })
    return value.map((one, index) => this.#read(one, `${this.#pathOf(name)}[${index}]`, read))
  }

  done (): void {
    const other = Object.keys(this.#form).find((name) => !this.#asked.has(name))
    if (other !== undefined) {
      throw new Refusal(400, `Received unknown parameter: ${this.#pathOf(other)}`, {
        code: 'parameter_unknown',
        param: this.#pathOf(other)
      })
    }
  }

  #read<T> (value: Form, path: string, read: (params: Params) => T): T {
    if (typeof value === 'string' || isList(value)) throw new Refusal(400, 'Invalid object', { param: path })
    const params = new Params(value, path)
    const result = read(params)
    params.done()
    return result
  }

  #value (name: string): Form | undefined {
    this.#asked.add(name)
    return Object.hasOwn(this.#form, name) ? this.#form[name] : undefined
  }

  #pathOf (name: string): string {
    return this.#path === '' ? name : `${this.#path}[${name}]`
  }
}
