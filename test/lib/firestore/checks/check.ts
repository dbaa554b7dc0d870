/** The checks of the stores, and the documents that they share. */
import type { Test } from 'tap'
import type { Ask } from '../../../http/caller.js'

/** Behaviour that the emulator from npm lacks. */
export type Gap =
  | 'ids in filters and order'
  | 'paths into fields'
  | 'nested filters'
  | 'offset'
  | 'select'
  | 'null and neq'
  | 'NaN and null'
  | 'set replaces'
  | 'all writes or none'
  | 'large integers'
  | 'cursors'

export interface Callers {
  readonly a: Ask
  readonly b: Ask
  /** An administrator of tenant `a`, with full access. */
  readonly admin: Ask
}

export interface Check {
  /** Skipped on the emulator from npm. */
  readonly gap?: Gap
  readonly run: (t: Test, callers: Callers) => Promise<void>
}

export const notes: Readonly<Record<string, object>> = {
  n1: { rank: 1, kind: 'a', count: 3, tags: ['x', 'y'], owner: { name: 'Ada' }, open: true },
  n2: { rank: 2, kind: 'b', count: 20, tags: ['z', 7], owner: { name: 'Ben' }, open: false },
  n3: { rank: 3, kind: 'c', count: '3', open: false }
}

export async function fill (ask: Ask): Promise<void> {
  for (const [id, note] of Object.entries(notes)) await ask(`PUT /notes/${id}`, { body: note })
}

/** The ids of a list, sorted: without an order, each store has its own. */
export async function idsOf (ask: Ask, target: string): Promise<unknown> {
  const { status, body } = await ask(`GET ${target}`)
  return status === 200 ? body.data?.map(({ id }) => String(id)).sort() : status
}

export async function bodyOf (response: ReturnType<Ask>): Promise<[number, unknown]> {
  const { status, body } = await response
  return [status, body]
}
