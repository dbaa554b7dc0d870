/** Schemas of tools, which other programs write, and arguments of tenants. */
import type { Tool } from '@modelcontextprotocol/client'
import t from 'tap'
import { compileTool } from '../../../plugins/mcp-client/connection.js'

type Schema = NonNullable<Tool['inputSchema']['properties']>[string]

/** The keywords of the faults. */
function faultsOf (schema: Schema, args: unknown): string[] {
  const tool = compileTool({ name: 'tool', inputSchema: { type: 'object', properties: { value: schema } } })
  return tool?.faultsOf({ value: args }).map(({ keyword }) => keyword) ?? ['left out']
}

t.test('patterns of tools are checked in linear time', async (t) => {
  const slow = '^(\\w+\\s?)*$'
  t.strictSame(faultsOf({ type: 'string', pattern: slow }, 'two words'), [])
  t.strictSame(faultsOf({ type: 'string', pattern: slow }, `${'a'.repeat(60)}!`), ['pattern'], 'would take hours with backtracking')
  const lists = { type: 'array', items: { type: 'string', pattern: slow } }
  t.strictSame(faultsOf(lists, new Array(100_000).fill('aaaaaaa!')), ['pattern'])
  t.strictSame(faultsOf(lists, [...new Array(100_000).fill('aaaaaaa'), '!']), [], 'beyond the bound, the server of the tool checks')
})

t.test('patterns that cannot be checked in linear time are left to the server of the tool', async (t) => {
  t.strictSame(faultsOf({ type: 'string', pattern: '^(?!\\.)[a-z.]+$' }, '.a'), [])
  const named = { type: 'object', patternProperties: { '^(?!x)(a+)+$': { type: 'string' } }, additionalProperties: false }
  t.strictSame(faultsOf(named, { [`${'a'.repeat(60)}!`]: 1 }), [])
  const plain = { type: 'object', patternProperties: { '^x-': {} }, additionalProperties: false }
  t.strictSame(faultsOf(plain, { 'x-a': 1 }), [])
  t.strictSame(faultsOf(plain, { y: 1 }), ['additionalProperties'])
})

t.test('no format or rule takes more than linear time', async (t) => {
  t.strictSame(faultsOf({ type: 'string', format: 'url' }, `http://[${' :'.repeat(500_000)}`), [])
  t.strictSame(faultsOf({ type: 'string', format: 'email' }, 'a'), ['format'])
  t.strictSame(faultsOf({ type: 'array', uniqueItems: true }, Array.from({ length: 300_000 }, (_, index) => [index])), [])
})

t.test('a check without a bound is left to the server of the tool', async (t) => {
  const $defs: Record<string, object> = { d60: { type: 'object' } }
  for (let level = 0; level < 60; level++) $defs[`d${level}`] = { allOf: Array(2).fill({ $ref: `#/$defs/d${level + 1}` }) }
  const tool = compileTool({ name: 'tool', inputSchema: { type: 'object', $defs, $ref: '#/$defs/d0' } })
  t.strictSame(tool?.faultsOf({}), [])
  t.match(tool?.faultsOf(1), [{ keyword: 'type' }])
})
