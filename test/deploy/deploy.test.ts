/** The files in deploy/: they parse, have the members that their programs know, and match the server and one another. */
import { execFile, spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { Ajv } from 'ajv'
import { Redis } from 'ioredis'
import t from 'tap'
import { parse, parseAllDocuments } from 'yaml'
import { checkConfig, type Config, type ConfigInput } from '../../lib/configuration/index.js'
import { messageOf } from '../../lib/errors.js'
import { createServer } from '../../lib/server.js'
import { page } from '../docs/markdown.js'
import { freePort } from '../helpers/free-port.js'
import { closeWithTest, testMasterKey } from '../helpers/server.js'
import { systemPostgres } from '../helpers/system-postgres.js'
import { testSecret } from '../helpers/tokens.js'
import { until } from '../helpers/until.js'
import { Compose, kubernetesObjects } from './schemas.js'

const folder = new URL('../../deploy/', import.meta.url)
const read = (name: string) => readFileSync(new URL(name, folder), 'utf8')
const ajv = new Ajv({ allErrors: true })
const document: ConfigInput = JSON.parse(read('tenantry.json'))

/** The settings that the server reads: those of the settings page and of the document. */
const known = new Set(
  [...page('docs/operations/settings.md').text.matchAll(/`([A-Z][A-Z_]+)`/g), ...read('tenantry.json').matchAll(/env\.([A-Z_]+)/g)].map((
    [, name]
  ) => name)
)
const inSecret = ['JWT_SECRET', 'SECRETS_MASTER_KEY', 'DATABASE_URL', 'REDIS_URL']
const stopMs = 10_000 // available to running requests

interface Container {
  readonly image: string
  readonly command: readonly string[]
  readonly ports?: ReadonlyArray<{ readonly name: string, readonly containerPort: number }>
  readonly envFrom?: ReadonlyArray<{ readonly secretRef: { readonly name: string } }>
  readonly env?: ReadonlyArray<{
    readonly name: string,
    readonly value?: string,
    readonly valueFrom?: { readonly secretKeyRef: { readonly name: string, readonly key: string } }
  }>
  readonly readinessProbe?: { readonly httpGet?: { readonly path: string, readonly port: string } }
  readonly livenessProbe?: object
}
interface Manifest {
  readonly kind: string
  readonly metadata: { readonly name: string, readonly labels: object }
  readonly spec: {
    readonly selector?: { readonly matchLabels?: object },
    readonly template?: {
      readonly metadata: { readonly labels: object },
      readonly spec: {
        readonly initContainers?: readonly Container[],
        readonly containers: readonly Container[],
        readonly terminationGracePeriodSeconds?: number
      }
    },
    readonly strategy?: { readonly rollingUpdate?: object },
    readonly podSelector?: { readonly matchLabels: object },
    readonly policyTypes?: readonly string[],
    readonly ingress?: readonly object[],
    readonly ports?: ReadonlyArray<{ readonly targetPort: string }>,
    readonly rules?: ReadonlyArray<
      { readonly http: { readonly paths: ReadonlyArray<{ readonly backend: { readonly service: { readonly name: string } } }> } }
    >
  }
}
interface ComposeFile {
  readonly services: Readonly<
    Record<
      string,
      {
        readonly command?: readonly string[],
        readonly environment?: Readonly<Record<string, string>>,
        readonly healthcheck?: { readonly test: readonly string[] },
        readonly stop_grace_period?: string,
        readonly volumes?: readonly string[],
        readonly depends_on?: Readonly<Record<string, object>>
      }
    >
  >
}

/** The document with a deployment's settings: a missing setting is a fault. */
function configOf (settings: Readonly<Record<string, string>>): Config {
  return checkConfig(document, { env: settings })
}

t.test('compose.yaml', async (t) => {
  const compose: ComposeFile = parse(read('compose.yaml'))
  t.equal(ajv.validate(Compose, compose), true, ajv.errorsText())
  t.equal(ajv.validate(Compose, { ...compose, services: { server: { enviroment: {} } } }), false, 'a wrong name is detected')
  const { server, migrate } = compose.services
  const { environment = {} } = server ?? {}
  t.strictSame(migrate?.environment, environment)
  t.match(read('Dockerfile'), /^WORKDIR \/srv\/api$[^]*--owner=node files$[^]*^USER node$/m)
  t.strictSame(server?.volumes, ['files:/srv/api/files'], 'uploads outlive the container, and its user may write them')
  for (const name of Object.keys(environment)) t.ok(known.has(name), name)
  for (const service of Object.values(compose.services)) {
    for (const name of Object.keys(service.depends_on ?? {})) t.ok(compose.services[name], name)
  }
  const config = configOf({ ...environment, JWT_SECRET: testSecret, SECRETS_MASTER_KEY: testMasterKey })
  t.equal(config.migrate, 'manual', 'in production, the service "migrate" runs the migrations')
  t.equal(config.cache.redis?.url, 'redis://redis:6379')
  t.match(server?.healthcheck?.test.at(-1), `:${environment['PORT']}/health`)
  t.ok(Number(server?.stop_grace_period?.replace('s', '')) * 1000 > config.server.stopDelayMs + stopMs)
})

t.test('the server starts with the role that database.sh creates, which row-level security binds', async (t) => {
  const { server, programs } = await systemPostgres(t)
  const password = "it's a password"
  await promisify(execFile)('sh', [fileURLToPath(new URL('database.sh', folder))], {
    env: { PATH: `${programs}:${process.env['PATH']}`, PGHOST: '127.0.0.1', PGPORT: String(server.port), DATABASE_PASSWORD: password }
  })
  const app = createServer({ ...document, cache: { enabled: false, provider: 'memory' }, migrate: 'auto' }, {
    env: {
      DATABASE_URL: `postgres://tenantry:${encodeURIComponent(password)}@127.0.0.1:${server.port}/tenantry`,
      JWT_SECRET: testSecret,
      SECRETS_MASTER_KEY: testMasterKey
    },
    logger: false
  })
  closeWithTest(t, app)
  t.equal((await app.inject('/health')).statusCode, 200)
})

t.test('kubernetes.yaml', async (t) => {
  const documents = parseAllDocuments(read('kubernetes.yaml'))
  t.strictSame(documents.flatMap(({ errors }) => errors), [])
  const objects: Manifest[] = documents.map((each) => each.toJS())
  for (const each of objects) {
    t.equal(ajv.validate(kubernetesObjects[each.kind] ?? false, each), true, `${each.kind} ${each.metadata.name}: ${ajv.errorsText()}`)
  }
  const named = (kind: string, name: string) => objects.find((each) => each.kind === kind && each.metadata.name === name)
  const pods = (name: string) => named('Deployment', name)?.spec.template

  t.test('selectors and ports match the pods', async (t) => {
    for (const { kind, metadata: { name }, spec: { selector } } of objects) {
      if (selector !== undefined) t.strictSame(selector.matchLabels ?? selector, pods(name)?.metadata.labels, `${kind} ${name}`)
    }
    for (const name of ['tenantry', 'tenantry-redis']) {
      const ports = pods(name)?.spec.containers[0]?.ports?.map((port) => port.name)
      t.strictSame(named('Service', name)?.spec.ports?.map(({ targetPort }) => targetPort), ports)
    }
    t.ok(named('Service', named('Ingress', 'tenantry')?.spec.rules?.[0]?.http.paths[0]?.backend.service.name ?? ''))
  })

  t.test('a server starts after the migration of its own version, and old servers serve meanwhile', async (t) => {
    const { initContainers = [], containers = [] } = pods('tenantry')?.spec ?? {}
    t.strictSame(initContainers.map(({ command }) => command.slice(1)), [['migrate']])
    t.equal(initContainers[0]?.image, containers[0]?.image)
    t.strictSame(named('Deployment', 'tenantry')?.spec.strategy?.rollingUpdate, { maxUnavailable: 0, maxSurge: 1 })
    t.notOk(objects.some(({ kind }) => kind === 'Job'), 'no object migrates beside the servers')
  })

  t.test('only servers reach Redis, and only with its password', async (t) => {
    const { podSelector, policyTypes, ingress = [] } = named('NetworkPolicy', 'tenantry-redis')?.spec ?? {}
    t.strictSame([podSelector?.matchLabels, policyTypes], [pods('tenantry-redis')?.metadata.labels, ['Ingress']])
    t.strictSame(ingress, [{
      from: [{ podSelector: { matchLabels: pods('tenantry')?.metadata.labels } }],
      ports: [{ protocol: 'TCP', port: pods('tenantry-redis')?.spec.containers[0]?.ports?.[0]?.name }]
    }])
    const { env, command = [] } = pods('tenantry-redis')?.spec.containers[0] ?? {}
    t.strictSame(env, [{ name: 'REDIS_PASSWORD', valueFrom: { secretKeyRef: { name: 'tenantry-redis', key: 'REDIS_PASSWORD' } } }])
    t.match(page('docs/operations/containers.md').text, '--from-literal=REDIS_URL="redis://:$REDIS_PASSWORD@tenantry-redis:6379"')
    const port = await freePort()
    const words = command.slice(1).map((word) => word.replace('$(REDIS_PASSWORD)', 'ab12'))
    const redis = spawn('redis-server', [...words, '--port', String(port), '--bind', '127.0.0.1'], { stdio: 'ignore' })
    t.teardown(() => redis.kill('SIGKILL'))
    const read = async (password: string): Promise<string> => {
      const client = new Redis(`redis://${password}127.0.0.1:${port}`, { lazyConnect: true, enableReadyCheck: false, retryStrategy: () => null })
      client.on('error', () => {})
      try {
        return String(await client.get('a'))
      } catch (error) {
        return messageOf(error)
      } finally {
        client.disconnect()
      }
    }
    await until('callers without the password are refused', async () => (await read('')).startsWith('NOAUTH'))
    t.equal(await read(':ab12@'), 'null')
  })

  t.test('settings and probes match the server', async (t) => {
    const template = pods('tenantry')
    const server = template?.spec.containers[0]
    const migrate = template?.spec.initContainers?.[0]
    const settings = (container?: Container) => Object.fromEntries((container?.env ?? []).map(({ name, value = '' }) => [name, value]))
    const secret = {
      JWT_SECRET: testSecret,
      SECRETS_MASTER_KEY: testMasterKey,
      DATABASE_URL: 'postgres://user@127.0.0.1:1/none',
      REDIS_URL: 'redis://127.0.0.1:1'
    }
    t.strictSame(Object.keys(secret), inSecret)
    for (const container of [server, migrate]) {
      for (const name of Object.keys(settings(container))) t.ok(known.has(name), name)
      t.equal(container?.envFrom?.[0]?.secretRef.name, 'tenantry')
      t.equal(configOf({ ...settings(container), ...secret }).migrate, 'manual')
    }
    t.strictSame([server?.command[1], migrate?.command[1]], ['start', 'migrate'])
    t.equal(Number(settings(server)['PORT']), server?.ports?.[0]?.containerPort)
    t.strictSame(server?.readinessProbe?.httpGet, { path: '/health', port: 'http' })
    t.notOk(JSON.stringify(server?.livenessProbe).includes('/health'), 'a lost database does not restart a pod')
    const { server: { stopDelayMs } } = configOf({ ...settings(server), ...secret })
    t.ok((template?.spec.terminationGracePeriodSeconds ?? 0) * 1000 > stopDelayMs + stopMs)
    for (const name of inSecret) t.match(page('docs/operations/containers.md').text, `--from-literal=${name}=`)
  })
})

t.test('the Dockerfile starts the command with the documented settings', async (t) => {
  const text = read('Dockerfile')
  t.match(text, /^USER node$/m)
  t.match(text, /^CMD \["node_modules\/\.bin\/tenantry", "start"\]$/m)
  for (const [, name] of (/^ENV (.*)$/m.exec(text)?.[1] ?? '').matchAll(/(\w+)=/g)) t.ok(known.has(name), `${name}`)
})
