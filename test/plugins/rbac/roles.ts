/** Roles for the tests of this folder. */
import type { Test } from 'tap'
import type { Ask, Body } from '../../http/caller.js'

export interface TestRole {
  readonly name: string
  readonly permissions?: readonly string[]
  readonly description?: string
}

/** Creates a role, and its missing permissions. Fails the test if the server rejects it. */
export async function makeRole (t: Test, ask: Ask, role: TestRole): Promise<Body & { id: string }> {
  for (const name of role.permissions ?? []) t.match((await ask('POST /rbac/permissions', { body: { name } })).status, /^(?:201|409)$/)
  const { status, body, text } = await ask('POST /rbac/roles', { body: role })
  t.equal(status, 201, text)
  return { ...body, id: String(body['id']) }
}
