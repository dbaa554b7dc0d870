/** The groups of built-in endpoints of an app. */
import type { FastifyInstance } from 'fastify'
import { builtInGroups, reservedPaths } from '../../lib/document/reserved.js'

const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const

/** By name, once all routes are registered: a group is on if one of its own paths is registered. */
export function groupsOf (app: FastifyInstance, off: ReadonlySet<string>): Record<string, boolean> {
  const present = new Set<string>()
  for (const { path, plugins: [group, ...others] } of reservedPaths) {
    if (group === undefined || others.length > 0 || off.has(group)) continue
    if (methods.some((method) => app.hasRoute({ method, url: app.prefix + path }))) present.add(group)
  }
  return Object.fromEntries(Array.from(builtInGroups, (group) => [group, present.has(group)]))
}
