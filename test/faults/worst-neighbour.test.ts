/**
 * The worst tenant against two processes on one PostgreSQL and one Redis, for ten minutes, or FAULT_SECONDS. Another tenant gets only
 * successes, both processes stay alive, and their memory returns to normal.
 */
import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { test } from 'tap'
import { startInstances } from '../helpers/instances.js'
import { postgresDatabase } from '../helpers/postgres.js'
import { startRedis } from '../helpers/redis.js'
import { bearer } from '../helpers/tokens.js'
import { attacks, neighbourSections, neighbourSql, startUpstream, type Statuses, worstTenant } from '../helpers/worst-neighbour.js'
import { faultSeconds } from './duration.js'

const megabyte = 1_048_576
const perSecond = 20 // requests of the other tenant to each process
const warmSeconds = 10 // s of all attacks before memory is measured, so that code is compiled and connections are open
const settleMs = 60_000 // for memory to return
const mostGrowth = 1.2

async function memoryOf (pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) * 1024
}

test(
  'the worst tenant crashes no process, leaks no memory and does not affect another tenant',
  { timeout: (faultSeconds + 300) * 1000 },
  async (t) => {
    const { connectionString, query } = await postgresDatabase(t, { sql: neighbourSql })
    await query("insert into tenantry.tenants (id, name, plan) values ($1, $1, 'enterprise'), ('quiet', 'quiet', 'enterprise')", [
      worstTenant
    ])
    const redis = await startRedis(t)
    const upstream = await startUpstream()
    t.teardown(() => upstream.close())
    const instances = await startInstances(
      t,
      {
        ...neighbourSections(upstream.origin),
        cache: { enabled: true, provider: 'redis', redis: { url: redis.url } }
      },
      { provider: 'postgres', postgres: { connectionString } },
      2,
      { LOG_LEVEL: 'warn' }
    )
    const authorization = bearer({ sub: 'worst admin', role: 'admin', tenant_id: worstTenant }, { expiresIn: 86_400 }).authorization
    const quiet = bearer({ sub: 'quiet user', tenant_id: 'quiet' }, { expiresIn: 86_400 })

    const answered: Statuses = {}
    const failures: string[] = []
    let successes = 0
    async function attack (seconds: number): Promise<void> {
      const ending = new AbortController()
      const running = instances.flatMap(({ address }) =>
        Object.values(attacks).map((attack) => attack({ url: address, authorization }, ending.signal, answered))
      )
      const end = performance.now() + seconds * 1000
      const asked: Promise<void>[] = []
      for (let index = 0; performance.now() < end; index++) {
        for (const { address } of instances) asked.push(ask(`${address}/items/${index % 20_000 + 1}`))
        await sleep(1000 / perSecond)
      }
      await Promise.all(asked)
      ending.abort()
      await Promise.all(running)
    }
    async function ask (url: string): Promise<void> {
      try {
        const response = await fetch(url, { headers: quiet })
        const text = await response.text()
        if (response.ok) successes++
        else failures.push(`${response.status} ${text}`)
      } catch (error) {
        failures.push(String(error))
      }
    }

    const calm = async () => await Promise.all(instances.map(({ pid }) => memoryOf(pid)))
    await attack(warmSeconds)
    await sleep(5000)
    const before = await calm()
    await attack(faultSeconds)
    const peak = await calm()

    t.strictSame([...new Set(failures)].slice(0, 5), [], `the other tenant got ${successes} successes`)
    t.ok(successes > faultSeconds, `${successes} successes`)
    let after = peak
    const deadline = performance.now() + settleMs
    do {
      await sleep(1000)
      after = await calm()
    } while (performance.now() < deadline && after.some((bytes, index) => bytes > mostGrowth * (before[index] ?? 0)))
    const megabytes = (values: readonly number[]) => values.map((bytes) => Math.round(bytes / megabyte)).join(' and ')
    t.comment(
      `memory: ${megabytes(before)} MB before, ${megabytes(peak)} MB at the end, ${megabytes(after)} MB after; responses to the attacks: ${
        JSON.stringify(answered)
      }`
    )
    for (const [index, bytes] of after.entries()) {
      t.ok(
        bytes <= mostGrowth * (before[index] ?? 0),
        `process ${index + 1} returns to ${(bytes / (before[index] ?? 0)).toFixed(2)} of its start`
      )
    }
    for (const { address } of instances) t.equal((await fetch(`${address}/health`)).status, 200, 'the process is alive')
  }
)
