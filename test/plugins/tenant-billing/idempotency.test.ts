/** The products that a key finds at payprov, without the plugin idempotency: each request reaches payprov. */
import { test } from 'tap'
import { signToken } from '../../helpers/tokens.js'
import { type Ask, caller } from '../../http/caller.js'
import { open, product } from './app.js'

const day = 86_400_000 // ms
const crane = { ...product, name: 'Crane' }

async function make (ask: Ask, body: object = product): Promise<Record<string, unknown>> {
  const response = await ask('POST /billing/tenant/products', { body, headers: { 'idempotency-key': 'new-product-1' } })
  if (response.status !== 201) throw new Error(response.text)
  return response.body
}

test('a key of another caller, or with another content, creates another product', async (t) => {
  const { app, as, accounts } = await open(t, ['acme'])
  const ada = as('acme')
  const alan = caller(t, app, { token: signToken({ role: 'admin', tenant_id: 'acme', sub: 'alan' }) })
  const first = await make(ada)
  t.match(await make(alan, crane), { name: 'Crane' })
  t.match(await make(ada, crane), { name: 'Crane' })
  t.match(await make(alan), { name: 'Berth' })
  t.equal(accounts['acme']?.products.size, 4)
  t.equal((await make(ada))['id'], first['id'])
  t.equal(accounts['acme']?.products.size, 4)
})

test('a key finds the product of a request within 24 hours that is still sold', async (t) => {
  const { as, accounts, world } = await open(t, ['acme'])
  const ada = as('acme')
  const first = await make(ada)
  world.advance(day - 1000)
  t.equal((await make(ada))['id'], first['id'])
  world.advance(1000)
  const second = await make(ada)
  t.not(second['id'], first['id'])
  t.equal((await make(ada))['id'], second['id'], 'the later one')
  const products = accounts['acme']?.products
  const sold = products?.get(String(second['id']))
  if (sold === undefined) return t.fail('no product')
  products?.set(sold.id, { ...sold, is_archived: true })
  t.not((await make(ada))['id'], second['id'])
  t.equal(products?.size, 3)
})
