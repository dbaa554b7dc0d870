/**
 * Real object storage for one test: OpenStack Swift with its S3 interface, in four processes. It checks signatures like Amazon S3. If
 * Swift is not installed, the test skips and names the command that installs it.
 */
import { type ChildProcess, execFile } from 'node:child_process'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { promisify } from 'node:util'
import { CreateBucketCommand, DeleteObjectCommand, PutObjectCommand, S3Client } from '@aws-sdk/client-s3'
import type { Test } from 'tap'
import type { S3 } from '../../lib/schema/files.js'
import { daemonFolder, skipMissing, startDaemon } from './daemon.js'
import { freePort } from './free-port.js'

const run = promisify(execFile)
const startTime = 120_000 // ms until Swift accepts requests, on a busy machine
const rings = ['account', 'container', 'object'] as const

export interface Swift extends S3 {
  readonly endpoint: string
  /** Ends the processes, to simulate an outage. */
  stop(): void
}

/** Starts Swift with an empty bucket. It ends with the test. */
export async function startSwift (t: Test): Promise<Swift> {
  const folder = daemonFolder('swift')
  writeFileSync(join(folder, 'swift.conf'), '[swift-hash]\nswift_hash_path_suffix = tests\nswift_hash_path_prefix = tests\n')
  mkdirSync(join(folder, 'srv', 'd1'), { recursive: true })
  const children: ChildProcess[] = []
  const start = async (name: string, configuration: string): Promise<void> => {
    const file = join(folder, `${name}-server.conf`)
    writeFileSync(file, configuration)
    const child = await startDaemon(t, { program: `swift-${name}-server`, packages, args: [file], folder })
    child.stderr?.resume()
    children.push(child)
  }
  const ports = [await freePort(), await freePort(), await freePort()] as const
  await makeRings(t, folder, ports)
  for (const [index, port] of ports.entries()) {
    const ring = rings[index]
    await start(String(ring), configuration(folder, port, `${ring}-server`, `[app:${ring}-server]\nuse = egg:swift#${ring}\n`))
  }
  const proxyPort = await freePort()
  await start('proxy', configuration(folder, proxyPort, 'catch_errors cache s3api tempauth slo dlo proxy-server', proxyFilters))
  const options: S3 & { endpoint: string } = {
    endpoint: `http://127.0.0.1:${proxyPort}`,
    region: 'us-east-1',
    bucket: 'files',
    accessKeyId: 'test:tester',
    secretAccessKey: 'testing',
    forcePathStyle: true
  }
  await makeBucket(options)
  return {
    ...options,
    stop: () => {
      for (const child of children) child.kill('SIGKILL')
    }
  }
}

const packages = 'swift-proxy swift-account swift-container swift-object'

/** One program creates all three rings: with `swift-ring-builder` it takes nine runs of a second each. */
const ringProgram = `
import sys
from swift.common.ring import RingBuilder
folder, *ports = sys.argv[1:]
for name, port in zip(${JSON.stringify(rings)}, ports):
    ring = RingBuilder(4, 1, 0)
    ring.add_dev({'id': 0, 'region': 1, 'zone': 1, 'weight': 1.0, 'ip': '127.0.0.1', 'port': int(port), 'device': 'd1'})
    ring.rebalance()
    ring.get_ring().save(folder + '/' + name + '.ring.gz')
`

async function makeRings (t: Test, folder: string, ports: readonly number[]): Promise<void> {
  try {
    await run('/usr/bin/python3', ['-c', ringProgram, folder, ...ports.map(String)])
  } catch (error) {
    if (/ENOENT|ModuleNotFoundError/.test(String(error))) {
      skipMissing(t, 'swift', packages)
      rmSync(folder, { recursive: true })
    }
    throw error
  }
}

/** The settings that all four processes share, and the pipeline of one. */
function configuration (folder: string, port: number, pipeline: string, further = ''): string {
  return `[DEFAULT]
bind_ip = 127.0.0.1
bind_port = ${port}
workers = 0
user = ${userInfo().username}
swift_dir = ${folder}
devices = ${join(folder, 'srv')}
mount_check = false
disable_fallocate = true
log_level = ERROR
[pipeline:main]
pipeline = ${pipeline}
${further}`
}

const proxyFilters = `[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
error_suppression_limit = 1000000
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:cache]
use = egg:swift#memcache
[filter:s3api]
use = egg:swift#s3api
check_bucket_owner = false
location = us-east-1
[filter:slo]
use = egg:swift#slo
[filter:dlo]
use = egg:swift#dlo
[filter:tempauth]
use = egg:swift#tempauth
user_test_tester = testing .admin
`

async function makeBucket ({ endpoint, region, bucket, accessKeyId, secretAccessKey }: S3 & { endpoint: string }): Promise<void> {
  const client = new S3Client({ endpoint, region, forcePathStyle: true, credentials: { accessKeyId, secretAccessKey }, maxAttempts: 1 })
  try {
    await onceReady(() => client.send(new CreateBucketCommand({ Bucket: bucket })))
    // The object server may start after the container server.
    await onceReady(() => client.send(new PutObjectCommand({ Bucket: bucket, Key: 'first', Body: '' })))
    await client.send(new DeleteObjectCommand({ Bucket: bucket, Key: 'first' }))
  } finally {
    client.destroy()
  }
}

async function onceReady (send: () => Promise<unknown>): Promise<void> {
  for (const end = performance.now() + startTime; ;) {
    try {
      await send()
      return
    } catch (error) {
      if (performance.now() > end) throw error
      await wait(100)
    }
  }
}
