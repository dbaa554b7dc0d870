/** Runs every `scripts/generate-*.ts` with `--check`: fails for a stale generated file, and says how to update it. */
import { spawnSync } from 'node:child_process'
import { readdir } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'

const folder = fileURLToPath(new URL('.', import.meta.url))
for (const name of (await readdir(folder)).filter(name => /^generate-.*\.ts$/.test(name)).sort()) {
  const { status } = spawnSync(process.execPath, ['--import', 'tsx', `${folder}${name}`, '--check'], { stdio: 'inherit' })
  if (status === 0) continue
  console.error(`stale: run "node --import tsx scripts/${name}"`)
  process.exitCode = 1
}
