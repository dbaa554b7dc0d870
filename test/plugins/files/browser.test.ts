/** A form in a real browser, on a page of another origin. */
import { test } from 'tap'
import { startChromium, startPage } from '../../helpers/chromium.js'
import { onDisk, open, rows } from './app.js'

test('a form of another origin uploads a file, and the page reads the response', async (t) => {
  const openPage = await startChromium(t)
  const origin = await startPage(t)
  const { app, as, origin: api, folder } = await open(t, { cors: { origins: [origin] } })
  const page = await openPage(origin)
  await page.setContent(
    '<form><input type="file" name="file"><input name="entityType" value="orders"><input name="entityId" value="42"></form>'
  )
  const name = 'Grüße (1).txt'
  await page.setInputFiles('input[type=file]', { name, mimeType: 'text/plain', buffer: Buffer.from('from a page') })
  const { authorization = '' } = as('acme').headers
  // The page's script, as text: this package has no browser types.
  const script = `fetch(${JSON.stringify(`${api}/files/upload`)}, {
    method: 'POST', headers: ${JSON.stringify({ authorization })}, body: new FormData(document.querySelector('form'))
  }).then(async (response) => ({ status: response.status, body: await response.json() }), String)`
  const result: unknown = await page.evaluate(script)
  t.match(result, { status: 201, body: { name, size: 11, contentType: 'text/plain', entityType: 'orders', entityId: '42' } })
  t.equal((await onDisk(folder)).length, 1)

  const stranger = await openPage(await startPage(t, 'localhost'))
  await stranger.setContent('<form><input type="file" name="file"></form>')
  await stranger.setInputFiles('input[type=file]', { name, mimeType: 'text/plain', buffer: Buffer.from('x') })
  t.type(await stranger.evaluate(script), 'string', "the browser hides the response from an unknown origin's page")
  t.same(await rows(app), { ready: 1 }, 'and does not send its upload')
})
