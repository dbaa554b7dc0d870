import { test } from 'tap'
import { htmlBlocks } from '../../../lib/chunking/html.js'

const shown = (html: string) => htmlBlocks(html).map(({ isHeading, text }) => isHeading ? `# ${text}` : text)

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
    const blocks = htmlBlocks(text)
    t.ok(blocks.length <= size, part)
  }
})
