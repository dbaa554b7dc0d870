/** A server loads only the packages that its document uses. */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { postgresDatabase } from '../helpers/postgres.js'
import { programArguments } from '../helpers/typescript.js'

const unused = [
  '@electric-sql/pglite',
  '@electric-sql/pglite-pgvector',
  '@fastify/static',
  '@fastify/swagger-ui',
  '@node-rs/argon2',
  '@polar-sh/sdk',
  '@aws-sdk/client-s3',
  'ajv',
  'file-type',
  'ioredis',
  'lmdb',
  'otplib',
  'qrcode',
  're2js',
  'stripe',
  'undici'
]

t.test('a document on PostgreSQL starts without the packages of other engines, providers and groups', async (t) => {
  const { connectionString } = await postgresDatabase(t)
  const list = join(t.testdir({}), 'loaded.txt')
  const { stdout } = await promisify(execFile)(process.execPath, [
    ...programArguments('test/programs/loaded-packages.ts'),
    connectionString,
    list
  ])
  const { statusCode, packages }: { statusCode: number, packages: string[] } = JSON.parse(stdout)
  t.equal(statusCode, 200)
  t.ok(packages.includes('fastify') && packages.includes('pg'), 'the check sees loaded packages')
  t.strictSame(packages.filter((name) => unused.includes(name)), [])
})
