/** `/doc` and `schema.json` are in plain English: each text is understood without the texts around it. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { dialectInDescription } from '../helpers/dialect.js'
import { wholeServer } from './whole-server.js'

const verbs = 'Accept Announce Apply Assign Call Cancel Change Chat Check Clear Confirm Create Delete Describe Disable Download Embed Enable ' +
  'Exchange Invite List Log Open Publish Receive Refresh Replace Reset Restore Retrieve Retry Revoke Rotate Run Save Search Send Set Show ' +
  'Sign Store Stream Synchronize Track Unassign Update Upload Use Verify'

/** The texts of these members, with the JSON path of the first occurrence. */
function textsOf (node: unknown, member: string, path = '#', texts = new Map<string, string>()): Map<string, string> {
  if (typeof node !== 'object' || node === null) return texts
  for (const [name, value] of Object.entries(node)) {
    if (name !== member || typeof value !== 'string') textsOf(value, member, `${path}/${name}`, texts)
    else if (!texts.has(value)) texts.set(value, path)
  }
  return texts
}

function faultsIn (descriptions: ReadonlyMap<string, string>): string[] {
  return [...descriptions].flatMap(([text, path]) => dialectInDescription(text).map((phrase) => `${path}: ${phrase}: ${text}`))
}

t.test('descriptions of all built-in endpoints are in plain English, and summaries begin with a verb', async (t) => {
  const app = wholeServer(t)
  const document: unknown = (await app.inject('/doc')).json()
  const paths = Object.keys(Object(document).paths)
  for (const path of ['/agent/chat', '/agent/embeddings', '/agent/mcp/tools', '/analytics/summary', '/mcp', '/rbac/roles', '/auth/register']) {
    t.ok(paths.includes(path), path)
  }
  const summaries = textsOf(document, 'summary')
  const pattern = new RegExp(`^(?:${verbs.replaceAll(' ', '|')}) [^.]+$`)
  t.ok(summaries.size > 100)
  t.same([...summaries.keys()].filter((summary) => !pattern.test(summary)), [])
  t.same(faultsIn(textsOf(document, 'description')), [])
})

t.test('descriptions of schema.json are in plain English', async (t) => {
  const descriptions = textsOf(JSON.parse(readFileSync('schema.json', 'utf8')), 'description')
  t.ok(descriptions.size > 400)
  t.same(faultsIn(descriptions), [])
})
