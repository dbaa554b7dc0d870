/** Paths of routes in the form of OpenAPI. */

// A name, the pattern that may follow it (one level of groups inside), and the mark of an optional parameter.
const parameter = /:(\w+)(?:\((?:[^()]|\([^()]*\))*\))?\??/g

/** `/articles/:id/*` -> `/articles/{id}/{wildcard}`. */
export function toTemplate (url: string): string {
  const path = url.replace(/::/g, '\0').replace(parameter, '{$1}').replace('*', '{wildcard}').replaceAll('\0', ':')
  return path === '' ? '/' : path
}

/** The names of a template's parameters. */
export function parametersOf (template: string): string[] {
  return Array.from(template.matchAll(/\{(\w+)\}/g), ([, name = '']) => name)
}

/** Templates that differ only in the names of their parameters have one shape: for OpenAPI they are the same path (3.1, 4.8.8). */
export function shapeOf (template: string): string {
  return template.replace(/\{\w+\}/g, '{}')
}

/** A name for an operation, from method and path: `GET /articles/{id}/reviews` -> `getArticlesByIdReviews`. */
export function operationName (method: string, template: string): string {
  const words = template.replace(/\{(\w+)\}/g, ' by $1 ').split(/[^A-Za-z0-9]+/).filter((word) => word !== '')
  return method.toLowerCase() + (words.length === 0 ? 'Root' : words.map((word) => word[0]!.toUpperCase() + word.slice(1)).join(''))
}

/** The paths of the document's `servers`, the prefix of every operation. */
export function basePathsOf (servers: unknown): string[] {
  return (Array.isArray(servers) ? servers : []).flatMap(
    (server: { url?: unknown, variables?: Readonly<Record<string, { default?: unknown }>> }) => {
      const url = String(server.url).replace(/\{([^{}]+)\}/g, (_, name: string) => String(server.variables?.[name]?.default))
      const path = URL.canParse(url, 'http://localhost') ? new URL(url, 'http://localhost').pathname.replace(/\/$/, '') : ''
      return path === '' ? [] : [path]
    }
  )
}

/** The path below its first matching base path, as in @fastify/swagger. */
export function withoutBasePath (path: string, basePaths: readonly string[]): string {
  const base = basePaths.find((base) => path === base || path.startsWith(`${base}/`))
  return base === undefined ? path : path.slice(base.length)
}
