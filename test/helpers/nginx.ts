/**
 * Real nginx for one test: one process on unprivileged ports, with its files in a temporary folder. If nginx is not installed, the
 * test skips and names the command that installs it (test/run.ts makes that a failure with CI=true).
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { daemonFolder, listensOn, startDaemon } from './daemon.js'

const startTime = 60_000 // ms until nginx accepts connections, on a busy machine

/** Starts nginx with the given content of the `http` block. Resolves when it accepts connections on the port. It ends with the test. */
export async function startNginx (t: Test, http: string, port: number): Promise<void> {
  const folder = daemonFolder('nginx')
  const log = join(folder, 'error.log')
  writeFileSync(join(folder, 'nginx.conf'), configuration(http))
  const child = await startDaemon(t, { program: 'nginx', args: ['-p', folder, '-c', 'nginx.conf', '-e', log], folder })
  child.stderr?.resume()
  await listensOn(port, child, startTime, () => readFileSync(log, 'utf8'))
}

/**
 * Runs as one process, so that one signal ends all of it. It does not close idle connections of callers by itself. As root, the worker
 * must be root too, to write root's files.
 */
function configuration (http: string): string {
  return `daemon off;
master_process off;
${process.getuid?.() === 0 ? 'user root;' : ''}
pid nginx.pid;
error_log error.log;
events { worker_connections 4096; }
http {
  access_log off;
  keepalive_timeout 1h;
  keepalive_requests 1000000;
  ${['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((kind) => `${kind}_temp_path ${kind};`).join('\n  ')}
${http}
}
`
}
