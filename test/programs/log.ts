/** Logs 20 MB at once. With TEST_END it ends by `process.exit`, otherwise when the lines are written. */
import Fastify from 'fastify'
import { loggerOptions } from '../../lib/log/request-log.js'

const lines = 20_000
const text = 'x'.repeat(1000)

const app = Fastify({ logger: loggerOptions({ level: 'info' }) })
for (let line = 0; line < lines; line++) app.log.info(text)
process.stderr.write('logged\n')
if (process.env['TEST_END'] !== undefined) process.exit(0)
