/**
 * Finds the route of one tenant for a request, as Fastify's router would, in less memory. find-my-way holds more than 20 KB for
 * ten routes, most of it generated code, and with ten thousand tenants nearly every request needs another tenant's router. A
 * parameter is always a whole segment here, so a map by path is enough.
 */

// No segment of a request holds it as it is: the path ends there.
const parameter = '#'
const maxParamLength = 2048 // characters, as in the server's own routes
const origin = /^https?:\/\/[^/]+\/?/i // of a whole address, as proxies send it; it has no fragment
const maxPathLength = 500 // characters, as in documents

/** A route that a request met. */
export interface Found<Value> {
  readonly value: Value
  readonly params: Readonly<Record<string, string>>
}

/** Inherits nothing, for a parameter may have any name. Quicker than what `Object.create(null)` makes. */
class Params {
  [name: string]: string

  static {
    Object.setPrototypeOf(Params.prototype, null)
    Reflect.deleteProperty(Params.prototype, 'constructor')
  }
}

interface Entry<Value> {
  readonly method: string
  readonly form: string
  readonly value: Value
  /** Names of the parameters, in order. */
  readonly names: readonly string[]
}

export class RouteTable<Value> {
  /** By what `keyOf` makes of the path. */
  readonly #entries = new Map<string, readonly Entry<Value>[]>()
  /** Which segments are parameters, as in `001`: each once, in the order in which they are tried. */
  #forms: readonly string[] = []
  readonly #methods = new Set<string>()

  /** Adds a route, with a path as parsePath takes it. */
  add (method: string, path: string, value: Value): void {
    this.#methods.add(method)
    const segments = path.slice(1).split('/')
    const form = segments.map((segment) => segment.startsWith(':') ? '1' : '0').join('')
    const names = segments.filter((segment) => segment.startsWith(':')).map((segment) => segment.slice(1))
    const key = keyOf(path, boundsOf(path), form)
    if (key === null) throw new Error('a path longer than documents take was not refused')
    this.#entries.set(key, [...this.#entries.get(key) ?? [], { method, form, value, names }])
    // A text goes before a parameter, and the first segment decides before the second.
    if (!this.#forms.includes(form)) this.#forms = [...this.#forms, form].sort()
  }

  /** The methods of the routes that take the path as it came, without query string. */
  methodsOf (path: string, counts: (value: Value) => boolean): Set<string> {
    const methods = new Set<string>()
    for (const method of this.#methods) {
      const found = this.find(method, path)
      if (found !== null && counts(found.value)) methods.add(method)
    }
    return methods
  }

  /** The route that takes the path as it came, without query string; texts go before parameters. */
  find (method: string, path: string): Found<Value> | null {
    const text = textOf(path)
    if (text === null) return null
    const bounds = boundsOf(text)
    for (const form of this.#forms) {
      if (form.length !== bounds.length - 1) continue
      const key = keyOf(text, bounds, form)
      const entry = key === null ? undefined : this.#entries.get(key)?.find((entry) => entry.method === method && entry.form === form)
      const params = entry === undefined ? null : paramsOf(entry.names, text, bounds, form)
      if (entry !== undefined && params !== null) return { value: entry.value, params }
    }
    return null
  }
}

/** The path in which what stands for one of `;/?:@&=+$,#%` is left as it was written; null where it is none, or no UTF-8. */
function textOf (path: string): string | null {
  const local = path.startsWith('/') ? path : path.replace(origin, '/')
  const end = local.indexOf('#')
  if (!local.startsWith('/') || (end !== -1 && local !== path)) return null
  const text = end === -1 ? local : local.slice(0, end)
  if (!text.includes('%')) return text
  try {
    // What "%25" is becomes "%" in parameters only.
    return decodeURI(text.replaceAll('%25', '%2525'))
  } catch {
    return null
  }
}

/** Where the slash before each segment is, and where the last one ends. */
function boundsOf (text: string): readonly number[] {
  const bounds = [0]
  for (let slash = text.indexOf('/', 1); slash !== -1; slash = text.indexOf('/', slash + 1)) bounds.push(slash)
  bounds.push(text.length)
  return bounds
}

/**
 * The path with `parameter` in the place of each parameter but one at the end, which is left out: most keys so are a piece
 * of the path. null where no route has so long a path.
 */
function keyOf (text: string, bounds: readonly number[], form: string): string | null {
  let key = ''
  let from = 0
  for (let segment = form.indexOf('1'); segment !== -1; segment = form.indexOf('1', segment + 1)) {
    key += text.slice(from, bounds[segment]! + 1)
    if (key.length > maxPathLength) return null
    if (segment === form.length - 1) return key
    key += parameter
    from = bounds[segment + 1]!
  }
  return key.length + text.length - from > maxPathLength ? null : key + text.slice(from)
}

/** null where one is too long. */
function paramsOf (
  names: readonly string[],
  text: string,
  bounds: readonly number[],
  form: string
): Readonly<Record<string, string>> | null {
  const params = new Params()
  let position = -1
  for (const name of names) {
    position = form.indexOf('1', position + 1)
    const written = text.slice(bounds[position]! + 1, bounds[position + 1])
    const value = written.includes('%') ? decodeURIComponent(written) : written
    if (value.length > maxParamLength) return null
    params[name] = value
  }
  return params
}
