/** The events of outbound webhooks. */

export const eventKinds = [
  'entity.created', 'entity.updated', 'entity.deleted', 'file.created', 'file.deleted', 'workflow.completed',
  'workflow.failed', 'usage.limit_reached', 'secret.rotated', 'subscription.created', 'subscription.updated',
  'subscription.canceled'
] as const

/** A subscription of a webhook: a kind, or all of a group, such as `entity.*`. */
export const eventPatterns: readonly string[] = [...new Set(eventKinds.flatMap((kind) => [`${groupOf(kind)}.*`, kind]))].sort()

/** The kinds that match the patterns. */
export function kindsOf (patterns: readonly string[]): ReadonlySet<string> {
  return new Set(eventKinds.filter((kind) => patterns.includes(kind) || patterns.includes(`${groupOf(kind)}.*`)))
}

/** Events of rows and documents, sent by writes. */
export const entityKinds: readonly string[] = eventKinds.filter((kind) => groupOf(kind) === 'entity')

function groupOf (kind: string): string {
  return kind.slice(0, kind.indexOf('.'))
}
