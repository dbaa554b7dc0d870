/** Templates in the texts of a tenant's document, as they are written. */
import type { PathNode } from '../compiler/template-parser.js'
import { parseTemplateAt, TemplateSyntaxError } from '../compiler/template-parser.js'

/** The paths that the templates of a text name; of what is no template, none. Expressions hold templates among other text. */
export function pathsIn (text: string): PathNode[] {
  const paths: PathNode[] = []
  for (let position = text.indexOf('{{'); position !== -1; position = text.indexOf('{{', position)) {
    try {
      const { node, end } = parseTemplateAt(text, position)
      paths.push(...node.alternatives.filter((alternative) => alternative.kind === 'path'))
      position = end
    } catch (error) {
      if (!(error instanceof TemplateSyntaxError)) throw error
      position += 2
    }
  }
  return paths
}

/** Adds the keys that a value, and everything in it, names as `{{secret:KEY}}` or `{{secret.KEY}}`. */
export function collectSecrets (value: unknown, keys: Set<string>): void {
  if (typeof value === 'string') {
    if (!value.includes('secret')) return
    for (const { source, path: [key] } of pathsIn(value)) if (source === 'secret' && key !== undefined) keys.add(String(key))
  } else if (typeof value === 'object' && value !== null) {
    for (const member of Object.values(value)) collectSecrets(member, keys)
  }
}
