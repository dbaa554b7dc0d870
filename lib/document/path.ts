/** Paths of routes: plain segments and `:name` parameters. */

/** A segment of a path; the text of a `parameter` is its name. */
export interface Segment {
  readonly kind: 'text' | 'parameter' | 'rest'
  readonly text: string
}

const parameterName = /^[A-Za-z_][A-Za-z0-9_]{0,63}$/
const plainSegment = /^[A-Za-z0-9._~!$&'+,;=@-]+$/

/** Splits a path; returns a string with the fault of an invalid one. */
export function parsePath (path: string): readonly Segment[] | string {
  if (!path.startsWith('/')) return 'expected a path that starts with "/"'
  if (path === '/') return []
  const segments: Segment[] = []
  const names = new Set<string>()
  for (const text of path.slice(1).split('/')) {
    if (text === '') return path.endsWith('/') ? 'a path cannot end with "/"' : 'a path cannot have empty segments'
    if (text === '.' || text === '..') return 'a path cannot have the segments "." and ".."'
    if (text.includes('*')) return 'a path cannot have wildcards; `:name` matches one segment'
    if (text.startsWith(':')) {
      const name = text.slice(1)
      if (!parameterName.test(name)) return `"${text}" is not a valid parameter: expected ":" and a name of letters, digits and underscores`
      if (names.has(name)) return `the parameter "${text}" appears twice in the path`
      names.add(name)
      segments.push({ kind: 'parameter', text: name })
    } else if (plainSegment.test(text)) {
      segments.push({ kind: 'text', text })
    } else if (text.includes(':')) {
      return `in "${text}" the parameter must be the whole segment`
    } else {
      return `"${text}" contains a character that must be percent-encoded in a path`
    }
  }
  return segments
}

/** The identity of a path, without the names of its parameters. */
export function shapeOf (segments: readonly Segment[]): string {
  return `/${segments.map((segment) => segment.kind === 'text' ? segment.text : ':').join('/')}`
}
