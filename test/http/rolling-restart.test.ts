/** A proxy in front of two instances that are restarted in turn, while requests arrive at a constant rate. */
import { randomUUID } from 'node:crypto'
import { Agent, request } from 'node:http'
import { type Test, test } from 'tap'
import WebSocket from 'ws'
import { launch, type Running } from '../bin/tenantry.js'
import { freePort } from '../helpers/free-port.js'
import { startNginx } from '../helpers/nginx.js'
import { postgresDatabase } from '../helpers/postgres.js'
import { remote } from '../helpers/remote.js'
import { testDocument, testEnv } from '../helpers/server.js'
import { signToken } from '../helpers/tokens.js'
import { until } from '../helpers/until.js'

const maxRate = 200 // requests a second; a slow machine gets fewer
const firstReads = 60 // which measure the machine
const responseMs = 20_000 // ms, after which a request counts as failed

const sql =
  "create table notes (tenant_id text not null, id uuid not null, text text); insert into notes values ('acme', gen_random_uuid(), 'the first')"

test('no request fails while instances behind nginx restart in turn; buffered data is written, and running jobs move to another instance', async (t) => {
  const { connectionString, query } = await postgresDatabase(t, { sql })
  let calls = 0
  const service = await remote(t, (_request, response) => {
    // The first call never gets a response.
    if (++calls > 1) response.setHeader('content-type', 'application/json').end('{"done":true}')
  })
  const document = testDocument({
    // Longer than the test, so that the stop writes the counters.
    analytics: { enabled: true, buffer: { flushInterval: 3_600_000, maxSize: 100_000 } },
    customIntegrations: [{ name: 'service', baseUrl: service.origin, actions: { call: { method: 'POST', path: '/call' } } }],
    workflows: [{ id: 'long', steps: [{ id: 'call', type: 'integration', integration: 'service', action: 'call', timeoutMs: 120_000 }] }],
    routes: [
      { path: '/notes', method: 'get', requireAuth: true, queries: [{ table: 'notes', operation: 'select', limit: 1 }] },
      {
        path: '/notes',
        method: 'post',
        requireAuth: true,
        queries: [{ table: 'notes', operation: 'insert', data: { id: '{{body.id}}', text: '{{secret:mark}}' } }]
      }
    ]
  }, { provider: 'postgres', postgres: { connectionString } })
  const folder = t.testdir({
    'tenantry.json': JSON.stringify(document),
    'sends.json': JSON.stringify({ ...document, queue: { workers: 0 } })
  })
  const [ports, proxies] = [[await freePort(), await freePort()], [await freePort(), await freePort()]] as const
  const instances: Running[] = []
  const start = async (index: 0 | 1, words: string[] = []) => {
    const instance = launch(t, folder, ['start', ...words, '--port', String(ports[index])], { ...testEnv })
    instances[index] = instance
    await instance.line(/^listening on /)
  }
  await startNginx(t, proxyOf(ports, proxies), proxies[1])
  await Promise.all([start(0), start(1, ['sends.json'])])

  const authorization = `Bearer ${signToken({ tenant_id: 'acme', role: 'admin' })}`
  let asked = 0
  const ask = async (path: string, body?: object): Promise<Record<string, unknown>> => {
    asked++
    const response = await fetch(`http://127.0.0.1:${ports[0]}${path}`, {
      headers: { authorization, 'content-type': 'application/json' },
      ...body !== undefined && { method: 'POST', body: JSON.stringify(body) }
    })
    return Object(await response.json())
  }
  await ask('/tenant/secrets', { key: 'mark', value: 'posted' })
  const { key } = await ask('/tenant/api-keys', { name: 'load' })
  const { workflowId } = await ask('/agent/workflow/run', { ref: 'long' })
  await until('the job runs on the first instance', () => calls === 1)

  const begun = performance.now()
  for (let read = 0; read < firstReads; read++) await ask('/notes')
  // A quarter of the reads that the machine serves one by one: writes cost more, and instances start beside the load.
  const rate = Math.min(maxRate, firstReads / 4 / (performance.now() - begun) * 1000)
  const load = startLoad(t, proxies, rate, { 'x-api-key': String(key), 'content-type': 'application/json' })
  const refused = keepRefused(t, proxies)
  const sockets = keepWebsocket(t, proxies[1], { authorization: `Bearer ${signToken({ tenant_id: 'globex' })}` })
  const ends: Running['ended'][] = []
  const stop = (instance: Running | undefined) => {
    instance?.kill('SIGTERM')
    if (instance !== undefined) ends.push(instance.ended)
  }
  for (const index of [0, 1] as const) {
    await until('both instances serve through both proxies', load.serves(ports))
    stop(instances[index])
    // The instance with the job has not ended by then; its port is free.
    await until('the other instance serves alone', load.serves([ports[1 - index] ?? 0]))
    await start(index)
  }
  await until('both instances serve at the end', load.serves(ports))
  // Once, if it was on the second instance from the begin.
  await until('the websocket was moved', () => sockets.opened > 1)
  const { sent, failures, written, seconds } = await load.end()
  sockets.end()
  t.ok(refused.count > 0, 'strangers got 503 meanwhile')
  t.comment(`${sent} requests in ${seconds} s`)
  t.same(failures, [], 'every request got a response')
  t.ok(sent >= rate * seconds * 0.9, 'the rate was constant')

  await until('the job was handed back, and run by another instance', () => calls === 2)
  let last: Record<string, unknown> = {}
  await until('the run has ended', async () => {
    last = await ask(`/agent/workflow/status?workflowId=${String(workflowId)}`)
    return last['status'] !== 'running'
  })
  t.match(last, { status: 'completed', result: { done: true } })
  t.equal(calls, 2, 'exactly one retry')
  for (const instance of instances) stop(instance)
  for (const { code, errors } of await Promise.all(ends)) t.match({ code, errors }, { code: 0, errors: { length: 0 } })

  t.same(
    (await query("select id from notes where text = 'posted'")).map(({ id }) => id).toSorted(),
    written.toSorted(),
    "each request's row exists once"
  )
  const [figures] = await query(`select
    (select sum(api_calls)::int from tenantry.usage_requests where tenant_id = 'acme') as calls,
    (select sum(count)::int from tenantry.request_stats where tenant_id = 'acme') as counted,
    (select access_count::int from tenantry.secrets where tenant_id = 'acme') as uses,
    (select count(last_used_at)::int from tenantry.api_keys where tenant_id = 'acme') as used,
    (select count(*)::int from tenantry.usage_instances) as instances`)
  t.same(
    figures,
    { calls: sent + asked, counted: sent + asked, uses: written.length, used: 1, instances: 0 },
    'each buffered figure is written once'
  )
})

/** One proxy that opens a connection for each request, and one that reuses them; as in docs/operations/stopping.md. */
function proxyOf (ports: readonly number[], [plain, keeping]: readonly [number, number]): string {
  const servers = ports.map((port) => `server 127.0.0.1:${port} max_fails=0;`).join(' ')
  const location = 'proxy_connect_timeout 1s; proxy_next_upstream error timeout http_503 non_idempotent; add_header x-served-by $upstream_addr always;'
  return `
  map $http_upgrade $connection_upgrade { default upgrade; '' ''; }
  upstream plain { zone plain 64k; ${servers} }
  upstream keeping { zone keeping 64k; ${servers} keepalive 16; }
  server { listen 127.0.0.1:${plain}; location / { proxy_pass http://plain; ${location} } }
  server {
    listen 127.0.0.1:${keeping};
    proxy_http_version 1.1;
    proxy_set_header Upgrade $http_upgrade;
    proxy_set_header Connection $connection_upgrade;
    location / { proxy_pass http://keeping; ${location} }
  }`
}

/** A stranger whose requests get 503 from each instance. */
function keepRefused (t: Test, proxies: readonly number[]) {
  const refused = { count: 0 }
  const timer = setInterval(() => {
    for (const port of proxies) {
      fetch(`http://127.0.0.1:${port}/billing/webhook/payprov`, { method: 'POST' }).then(({ status }) => {
        if (status === 503) refused.count++
      }, () => {})
    }
  }, 100)
  t.teardown(() => clearInterval(timer))
  return refused
}

/** A client that connects again as soon as its websocket has ended, also while its instance stops. */
function keepWebsocket (t: Test, port: number, headers: Record<string, string>) {
  let socket: WebSocket
  let isEnded = false
  const sockets = {
    opened: 0,
    end () {
      isEnded = true
      socket.terminate()
    }
  }
  const connect = () => {
    if (isEnded) return
    socket = new WebSocket(`ws://127.0.0.1:${port}/realtime`, { headers })
    socket.on('message', () => {
      sockets.opened++
    }).on('error', () => {}).on('close', connect)
  }
  connect()
  t.teardown(() => sockets.end())
  return sockets
}

interface Load {
  /** Whether each proxy, from now on, has had a response from each of these instances and from no other. */
  serves(ports: readonly number[]): () => boolean
  end(): Promise<{ readonly sent: number, readonly failures: string[], readonly written: string[], readonly seconds: number }>
}

/** Sends reads and writes alternately, through alternating proxies, on persistent connections. */
function startLoad (t: Test, proxies: readonly number[], rate: number, headers: Record<string, string>): Load {
  const agent = new Agent({ keepAlive: true, maxSockets: 200 })
  const begun = performance.now()
  const underWay = new Set<Promise<void>>()
  const failures: string[] = []
  const written: string[] = []
  /** The responding instances, in order: `proxy instance`. */
  let answered: string[] = []
  let sent = 0

  const send = (number: number) =>
    new Promise<void>((resolve) => {
      const [writes, proxy] = [number % 2 === 0, proxies[Math.floor(number / 2) % 2] ?? 0]
      const id = randomUUID()
      const fail = (reason: string) => {
        failures.push(`${writes ? 'POST' : 'GET'} by ${proxy === proxies[0] ? 'plain' : 'keeping'}: ${reason}`)
        resolve()
      }
      const asked = request({
        agent,
        host: '127.0.0.1',
        port: proxy,
        path: '/notes',
        method: writes ? 'POST' : 'GET',
        headers,
        signal: AbortSignal.timeout(responseMs)
      }, (response) => {
        response.on('error', (error) => fail(error.message)).on('end', () => {
          if (response.statusCode !== (writes ? 201 : 200)) {
            return fail(`${response.statusCode} of ${String(response.headers['x-served-by'])}`)
          }
          if (writes) { written.push(id) }
          answered.push(`${proxy} ${String(response.headers['x-served-by']).split(':').at(-1)}`)
          resolve()
        }).resume()
      })
      asked.on('error', (error) => fail(error.message)).end(writes ? JSON.stringify({ id, text: 'posted' }) : undefined)
    })

  const timer = setInterval(() => {
    for (const due = (performance.now() - begun) / 1000 * rate; sent < due;) {
      const done: Promise<void> = send(sent++).then(() => {
        underWay.delete(done)
      })
      underWay.add(done)
    }
  }, 5)
  t.teardown(() => {
    clearInterval(timer)
    agent.destroy()
  })

  return {
    serves (ports) {
      const wanted = proxies.flatMap((proxy) => ports.map((port) => `${proxy} ${port}`)).toSorted().join()
      answered = []
      return () => {
        // An instance may have responded just before its signal to stop.
        const last = answered.slice(-20)
        return last.length === 20 && [...new Set(last)].toSorted().join() === wanted
      }
    },
    async end () {
      clearInterval(timer)
      const seconds = (performance.now() - begun) / 1000
      await Promise.all(underWay)
      agent.destroy()
      return { sent, failures, written, seconds: Math.round(seconds * 10) / 10 }
    }
  }
}
