import { readFile } from 'node:fs/promises'
import { test } from 'tap'
import { nodeFault } from '../../bin/node-version.js'

test('an older Node.js is named, with the oldest one that works', async (t) => {
  const { engines } = JSON.parse(await readFile('package.json', 'utf8'))
  for (const version of ['v18.20.8', 'v20.18.3', 'v16.0.0']) {
    t.equal(nodeFault(version), `Node.js ${version} is too old: install Node.js ${String(engines.node).replace('>=', '')} or later`)
  }
  for (const version of ['v20.19.0', 'v20.20.2', 'v22.0.0', 'v25.1.0', process.version]) t.equal(nodeFault(version), null, version)
})

test('the command imports nothing before it has checked Node.js', async (t) => {
  const source = async (name: string) => await readFile(`bin/${name}`, 'utf8')
  t.strictSame((await source('tenantry.ts')).match(/^import .*$/gm), ["import { nodeFault } from './node-version.js'"])
  t.equal((await source('node-version.ts')).match(/^import /m), null)
})
