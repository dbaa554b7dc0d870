import { Readable } from 'node:stream'
import sharp from 'sharp'
import t from 'tap'
import { transformImage, transformName } from '../../../lib/files/images.js'
import { runProgram } from '../../helpers/program.js'

const sample = (width: number, height: number) => sharp({ create: { width, height, channels: 3, background: '#336699' } })
const stream = (bytes: Buffer) => Readable.from([bytes])
const refused = { code: 'TENANTRY_BAD_REQUEST', statusCode: 400 }

t.test('converts images to other sizes and formats', async (t) => {
  const original = await sample(400, 200).png().toBuffer()
  const cases = [
    [{ width: 100 }, { width: 100, height: 50, format: 'png' }],
    [{ height: 100 }, { width: 200, height: 100, format: 'png' }],
    [{ width: 100, height: 100 }, { width: 100, height: 100, format: 'png' }],
    [{ width: 100, height: 100, fit: 'inside' }, { width: 100, height: 50, format: 'png' }],
    [{ format: 'webp', quality: 10 }, { width: 400, height: 200, format: 'webp' }],
    [{ format: 'jpeg' }, { width: 400, height: 200, format: 'jpeg' }],
    [{ format: 'avif', width: 40 }, { width: 40, height: 20, format: 'heif' }]
  ] as const
  for (const [transform, expected] of cases) {
    const { bytes, contentType } = await transformImage(stream(original), transform)
    t.match(await sharp(bytes).metadata(), expected, JSON.stringify(transform))
    t.equal(contentType, `image/${expected.format === 'heif' ? 'avif' : expected.format}`)
  }
})

t.test('an animation becomes its first frame', async (t) => {
  const frames = Buffer.concat(['#ff0000', '#00ff00'].map((colour) => Buffer.alloc(10 * 10 * 3, Buffer.from(colour.slice(1), 'hex'))))
  const gif = await sharp(frames, { raw: { width: 10, height: 20, channels: 3, pageHeight: 10 } }).gif({ delay: [100, 100] }).toBuffer()
  t.equal((await sharp(gif).metadata()).pages, 2)
  const { bytes, contentType } = await transformImage(stream(gif), { width: 5 })
  t.equal(contentType, 'image/png')
  t.match(await sharp(bytes).metadata(), { width: 5, height: 5, format: 'png' })
})

t.test('rejects images that are too large, and files that are not images', async (t) => {
  const bomb = await sample(10_000, 6_000).png({ compressionLevel: 9 }).toBuffer()
  await t.rejects(transformImage(stream(bomb), { width: 10 }), refused, '60 megapixels')
  for (
    const text of [
      '<svg xmlns="http://www.w3.org/2000/svg" width="10" height="10"><rect width="10" height="10"/></svg>',
      'no image',
      '',
      'GIF89a/*<script>*/'
    ]
  ) {
    await t.rejects(transformImage(stream(Buffer.from(text)), { width: 10 }), refused, text.slice(0, 20))
  }
  const cut = (await sample(400, 200).jpeg().toBuffer()).subarray(0, 600)
  await t.rejects(transformImage(stream(cut), { width: 10 }), refused, 'a truncated image')
})

t.test('rejects an animation whose frames together are too large', async (t) => {
  const size = Buffer.from([0xd0, 0x07, 0xd0, 0x07]) // 2,000 pixels on each side
  const page = Buffer.from('2c000000000100010080000000ffffff02024401003b', 'hex').subarray(0, -1)
  const bytes = (pages: number) =>
    Buffer.concat([
      Buffer.from('GIF89a'),
      size,
      Buffer.from([0x80, 0, 0, 0, 0, 0, 255, 255, 255]),
      ...Array<Buffer>(pages).fill(page),
      Buffer.from([0x3b])
    ])
  t.match(await sharp(bytes(13)).metadata(), { width: 2000, height: 2000, pages: 13 })
  t.match(await sharp((await transformImage(stream(bytes(12)), { width: 10 })).bytes).metadata(), { width: 10, height: 10 })
  await t.rejects(transformImage(stream(bytes(13)), { width: 10 }), {
    ...refused,
    message: 'The image has more than 50 megapixels: it cannot be transformed'
  })
})

t.test('without the package sharp the original is closed', async (t) => {
  const { output } = await runProgram(t, 'test/programs/without-sharp.ts')
  t.match(output, /must install the package "sharp"\nended/)
})

t.test('equal transforms have the same name', async (t) => {
  t.equal(transformName({}), null)
  t.equal(transformName({ height: 2, width: 1, format: 'webp' }), transformName({ format: 'webp', width: 1, height: 2 }))
  t.equal(transformName({ width: 1, fit: 'cover', quality: 80 }), 'w-1_fit-cover_q-80')
})
