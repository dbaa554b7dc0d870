/**
 * Logs 20 MB at once, or TEST_LINES lines of 1 KB. With TEST_END it ends by `process.exit`, otherwise when the lines are written. With
 * TEST_SERVE, it runs until standard input ends.
 */
import Fastify from 'fastify'
import { loggerOptions } from '../../lib/log/request-log.js'

const lines = Number(process.env['TEST_LINES'] ?? 20_000)
const text = 'x'.repeat(1000)

const app = Fastify({ logger: loggerOptions({ level: 'info' }) })
for (let line = 0; line < lines; line++) app.log.info(text)
process.stderr.write('logged\n')
if (process.env['TEST_END'] !== undefined) process.exit(0)
if (process.env['TEST_SERVE'] !== undefined) {
  process.stdin.resume().once('end', () => process.exit(0))
  const beat = setInterval(() => process.stderr.write('serves\n'), 20)
  beat.unref()
}
