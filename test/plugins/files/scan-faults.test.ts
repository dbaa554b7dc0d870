/** The quarantine with a scanner that fails for some files. A local server speaks clamd's protocol. */
import { rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { mock } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { sql } from 'kysely'
import { type Test, test } from 'tap'
import { createLocalStore } from '../../../lib/files/local.js'
import { tenantRef } from '../../../lib/identity/tenant-ref.js'
import { isRecord, jsonIn } from '../../../lib/json/plain-value.js'
import { createQuarantine } from '../../../plugins/files/quarantine.js'
import { createScanStore } from '../../../plugins/files/scan-store.js'
import { freePort } from '../../helpers/free-port.js'
import { until } from '../../helpers/until.js'
import { file, open, rows } from './app.js'

const command = 'zINSTREAM\0'

/** Starts a scanner that replies to the content of a file; null: never. */
async function startScanner (t: Test, reply: (content: string) => Promise<string | null>): Promise<{ host: string, port: number }> {
  const address = { host: '127.0.0.1', port: await freePort() }
  const server = createServer((socket) => {
    let bytes = Buffer.alloc(0)
    socket.on('error', () => {}).on('data', (chunk: Buffer) => {
      bytes = Buffer.concat([bytes, chunk])
      if (bytes.toString() === 'zPING\0') return socket.end('PONG\0')
      if (bytes.length < command.length + 8 || bytes.readUInt32BE(bytes.length - 4) !== 0) return
      // The short files of these tests have one chunk.
      reply(bytes.subarray(command.length + 4, -4).toString()).then((text) => {
        if (text !== null) socket.end(`${text}\0`)
      }, () => socket.destroy())
    })
  }).listen(address.port, address.host)
  t.teardown(() => server.close())
  return address
}

async function setting (t: Test, reply: (content: string, remove: (name: string) => Promise<unknown>) => Promise<string | null>) {
  const warnings: string[] = []
  const stream = {
    write (line: string) {
      const entry = jsonIn(line)
      if (isRecord(entry)) warnings.push(String(entry['msg']))
    }
  }
  const { app, as, folder } = await open(t, {}, { logger: { level: 'warn', stream } })
  const remove = (name: string) => sql`delete from tenantry.files where name = ${name}`.execute(app.db)
  let announced = 0
  const dbFor = app.engine.kyselyFor
  const quarantine = createQuarantine({
    scanner: await startScanner(t, (content) => reply(content, remove)),
    scans: createScanStore(app.db, dbFor),
    objects: createLocalStore(folder),
    dbFor,
    emitter () {
      announced++
      return null
    },
    now: Date.now,
    log: app.log
  })
  t.teardown(() => quarantine.close())

  /** Puts a file into quarantine whose name is its content; later ones are due later. Returns its id. */
  async function add (tenant: string, content: string, ageSeconds = 0): Promise<string> {
    const { body } = await as(tenant).upload([file(content, content)])
    const id = String(body['id'])
    await sql`update tenantry.files set status = 'quarantined', scan_at = now(), created_at = now() - make_interval(secs => ${ageSeconds})
      where id = ${id}`.execute(app.db)
    return id
  }

  return {
    app,
    folder,
    warnings,
    add,
    wake: (tenant: string) => quarantine.wake(tenantRef(tenant)),
    close: quarantine.close,
    announced: () => announced
  }
}

test('files that cannot be scanned hold up no others, and are due later the longer they have waited', async (t) => {
  const { app, folder, add, wake, warnings } = await setting(t, async (content) =>
    content.startsWith('bad') ? 'stream: cannot be read ERROR' : 'stream: OK'
  )
  await add('acme', 'bad and new')
  await add('acme', 'bad for ten minutes', 600)
  await add('acme', 'bad for a year', 31_536_000)
  await rm(join(folder, 'acme', await add('acme', 'bad: its object is missing', 600)))
  await add('acme', 'clean')
  wake('acme')
  await until('the last file is scanned', async () => (await rows(app))['ready'] === 1)
  const { rows: due } = await sql<{ name: string, seconds: number }>`
    select name, extract(epoch from scan_at - now())::float8 as seconds from tenantry.files where status = 'quarantined' order by name
  `.execute(app.db)
  const about = (name: string, seconds: number) => {
    const found = due.find((row) => row.name === name)?.seconds ?? NaN
    t.ok(found > seconds / 2 && found <= seconds + 60, `${name}: ${found} s`)
  }
  about('bad and new', 20)
  about('bad for ten minutes', 600)
  about('bad: its object is missing', 600)
  about('bad for a year', 3600)
  t.strictSame(warnings, Array(4).fill('a file could not be scanned; it is tried again'))
})

test('a tenant that waits for its turn is no failure, neither after a minute nor during a stop', async (t) => {
  let scans = 0
  const { add, wake, close, warnings } = await setting(t, async () => {
    scans++
    return null
  })
  for (const tenant of ['acme', 'acme', 'globex', 'globex', 'seven']) await add(tenant, 'slow')
  for (const tenant of ['acme', 'acme', 'globex', 'globex']) wake(tenant)
  await until('all places are taken', () => scans === 4)
  mock.timers.enable({ apis: ['setTimeout'] })
  wake('seven')
  mock.timers.tick(60_000)
  mock.timers.reset()
  await turn()
  wake('seven')
  await close()
  t.strictSame([warnings, scans], [[], 4])
})

test('a file that is deleted during its scan has neither an event nor a warning', async (t) => {
  const { app, add, wake, announced, warnings } = await setting(t, async (content, remove) => {
    if (content !== 'last') await remove(content)
    return content === 'infected' ? 'stream: Test FOUND' : 'stream: OK'
  })
  for (const content of ['infected', 'clean', 'last']) await add('acme', content)
  wake('acme')
  await until('the last file is scanned', async () => (await rows(app))['ready'] === 1 && announced() >= 2)
  t.strictSame(warnings, [])
  t.equal(announced(), 2, 'the event of the last file is written, and its webhooks wake')
})
