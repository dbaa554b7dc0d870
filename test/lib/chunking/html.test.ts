import { test } from 'tap'
import { htmlBlocks } from '../../../lib/chunking/html.js'

const shown = (html: string) => [...htmlBlocks(html)].flat().map(({ isHeading, text }) => isHeading ? `# ${text}` : text)

test('reads headings, paragraphs, lists, tables and entities', async (t) => {
  t.same(
    shown(`<!doctype html><html><head><title>A &amp; B</title><style>p { color: red }</style></head><body>
    <h1 class="x">One <em>two</em></h1><p>a   b<br>c</p><ul><li>first<li>second</ul>
    <table><tr><th>x</th><td>1</td></tr></table><pre>a\n  b</pre>&#x1F600; &lt;b&gt; &nbsp;tail</body></html>`),
    [
      '# A & B',
      '# One two',
      'a b\nc',
      'first',
      'second',
      'x 1',
      'a\n  b',
      '😀 <b> \u00a0tail'
    ]
  )
})

test('a line of the source does not end a sentence', async (t) => {
  t.same(shown('<p>one\n  <b>sentence</b>\r\nin three lines<br>\nnext line</p>'), ['one sentence in three lines\nnext line'])
  t.same(shown('<h1>a\nheading</h1><pre>a<br>b</pre>'), ['# a heading', 'a\nb'])
})

test('leaves out scripts, styles, comments and attributes', async (t) => {
  t.same(
    shown(
      '<p onclick="a()">a</p><script>if (a < b) document.write("<p>x</p>")</script><!-- <p>y</p> --><style>p{}</style><SCRIPT>z</SCRIPT ><p>b'
    ),
    ['a', 'b']
  )
  t.same(shown('<script>never closed <p>a</p>'), [])
})

test('parses broken markup without an error', async (t) => {
  t.same(shown('a</p></div></x>b<'), ['a', 'b<'])
  t.same(shown(''), [])
})

test('is linear: a megabyte of nested, unclosed or closed elements is parsed quickly', async (t) => {
  const size = 1_000_000
  for (
    const part of ['<a>', '<div>', '</x>', '<p', '<!--', '&amp', '<b></c>', '<h1>', '<', '<a b="', '<pre>', '<![CDATA[', '<?', '&#x', '\n ']
  ) {
    const text = part.repeat(size / part.length)
    const blocks = [...htmlBlocks(text)].flat()
    t.ok(blocks.length <= size, part)
  }
})

test('text is the same across the steps of the reader', async (t) => {
  const long = Array.from({ length: 3000 }, (_, index) => `word${index}`)
  t.same(shown(`<p>${long.join(' \t ')}`), [long.join(' ')])
  t.same(shown(`<p>${long.join('<b> </b> ')}`), [long.join(' ')])
  t.same(shown(`<p>${long.join('&nbsp; <br>\n')}`), [long.join('\n')])
  t.same(shown(`<pre>${long.join(' \n\n ')}</pre>`), [long.join(' \n\n ')])
  t.same(shown(`<p>${long.join('</p><h1 class="&amp;">')}`), long.map((word, index) => index === 0 ? word : `# ${word}`))
  t.same(shown(`<p>${'&#x1F600;'.repeat(3000)}`), ['😀'.repeat(3000)])
})

test('each step reads a small part of the document', async (t) => {
  const size = 400_000
  // A title is one text for the parser if a `<` is at the end of each part.
  const title = `<title>${' \t'.repeat(2044)}<${' \t'.repeat(2047)} <`.padEnd(size, `${' \t'.repeat(2047)} <`)
  for (const html of ['<p>a'.repeat(size / 4), '<p>'.repeat(size / 3), '<br>'.repeat(size / 4), title]) {
    const steps = [...htmlBlocks(html)]
    t.ok(steps.length >= 97, `${html.slice(0, 8)}: ${steps.length} steps`)
    t.ok(steps.every((blocks) => blocks.length <= 2048), html.slice(0, 8))
  }
})
