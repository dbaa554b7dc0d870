/**
 * Finds the route of one tenant for a request, by the rules of Fastify's router but in less memory. find-my-way needs more than
 * 20 KB for ten routes, most of it generated code. With ten thousand tenants, nearly every request needs another tenant's
 * router. Here a parameter is always a whole segment, so a map by path is enough.
 */

import { localTarget } from '../../lib/http/request-target.js'
import { maxParamLength } from '../../lib/http/route-paths.js'

// Cannot occur in a segment of a request: the path ends at `#`.
const parameter = '#'
export const maxPathLength = 500 // characters, as in documents

export interface RouteMatch<Value> {
  readonly value: Value
  readonly params: Readonly<Record<string, string>>
}

/** Has no inherited members, since a parameter may have any name. Faster than `Object.create(null)`. */
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
  /** By the `keyOf` of the path. */
  readonly #entries = new Map<string, readonly Entry<Value>[]>()
  /** The distinct forms, in the order of matching. A form has `1` for a parameter and `0` for a text: `001`. */
  #forms: readonly string[] = []
  readonly #methods = new Set<string>()

  /** Adds a route. The path is as parsePath accepts it. */
  add (method: string, path: string, value: Value): void {
    this.#methods.add(method)
    const segments = path.slice(1).split('/')
    const form = segments.map((segment) => segment.startsWith(':') ? '1' : '0').join('')
    const names = segments.filter((segment) => segment.startsWith(':')).map((segment) => segment.slice(1))
    const key = keyOf(path, boundsOf(path), form)
    if (key === null) throw new Error('a path beyond the maximum length was not rejected')
    this.#entries.set(key, [...this.#entries.get(key) ?? [], { method, form, value, names }])
    // A text is matched before a parameter, and earlier segments decide before later ones.
    if (!this.#forms.includes(form)) this.#forms = [...this.#forms, form].sort()
  }

  /** The methods of the routes that match the undecoded path, which has no query string. */
  methodsOf (path: string, counts: (value: Value) => boolean): Set<string> {
    const methods = new Set<string>()
    for (const method of this.#methods) {
      const found = this.find(method, path)
      if (found !== null && counts(found.value)) methods.add(method)
    }
    return methods
  }

  /** The route that matches the undecoded path, which has no query string. A text is matched before a parameter. */
  find (method: string, path: string): RouteMatch<Value> | null {
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

/** The decoded path, in which encoded `;/?:@&=+$,#%` stay encoded. null if the text is not a path, or not UTF-8. */
function textOf (path: string): string | null {
  const local = localTarget(path)
  const end = local.indexOf('#')
  // A target in absolute form has no fragment.
  if (!local.startsWith('/') || (end !== -1 && local !== path)) return null
  const text = end === -1 ? local : local.slice(0, end)
  if (!text.includes('%')) return text
  try {
    // Only parameters decode "%25" to "%".
    return decodeURI(text.replaceAll('%25', '%2525'))
  } catch {
    return null
  }
}

/** The position of the slash before each segment, and the end of the path. */
export function boundsOf (text: string): readonly number[] {
  const bounds = [0]
  for (let slash = text.indexOf('/', 1); slash !== -1; slash = text.indexOf('/', slash + 1)) bounds.push(slash)
  bounds.push(text.length)
  return bounds
}

/**
 * The path with `parameter` in place of each parameter. A last parameter is left out, so that most keys are a slice of the
 * path. null if the path is longer than that of any route.
 */
export function keyOf (text: string, bounds: readonly number[], form: string): string | null {
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

/** null if a parameter is too long. */
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
