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

t.test('rejects an AVIF image that would be too large, with any fit', async (t) => {
  const original = await sample(4000, 2001).png().toBuffer()
  const message = /at most 8 megapixels/
  const tooLarge = [
    {},
    { width: 4001 },
    { width: 4000, height: 2001, fit: 'inside' },
    { width: 2, height: 2001, fit: 'outside' },
    { height: 2001, fit: 'fill' }
  ] as const
  for (const size of tooLarge) {
    await t.rejects(transformImage(stream(original), { ...size, format: 'avif' }), { ...refused, message }, JSON.stringify(size))
  }
  const made = await transformImage(stream(original), { width: 40, format: 'avif' })
  t.match(await sharp(made.bytes).metadata(), { width: 40, height: 20 })
  t.equal((await transformImage(stream(original), { format: 'jpeg' })).contentType, 'image/jpeg')
})

t.test('rejects a size whose other side would be too large', async (t) => {
  const strip = await sample(10, 2000).png().toBuffer()
  const turned = await sample(10, 2000).withMetadata({ orientation: 6 }).jpeg().toBuffer()
  const message = 'The image would have more than 4096 pixels on a side: choose a smaller `width` or `height`, or another `fit`'
  const tooLarge = [
    [strip, { width: 21 }],
    [strip, { width: 1024, height: 1, fit: 'outside' }],
    [strip, { width: 21, fit: 'inside' }],
    [turned, { height: 21 }],
    [turned, { width: 1, height: 21, fit: 'outside' }],
    [await sample(10, 5000).png().toBuffer(), { width: 10, fit: 'fill' }]
  ] as const
  for (const [original, transform] of tooLarge) {
    await t.rejects(transformImage(stream(original), transform), { ...refused, message }, JSON.stringify(transform))
  }
  const accepted = [
    [strip, { width: 20 }, { width: 20, height: 4000 }],
    [strip, { width: 1024, height: 1024 }, { width: 1024, height: 1024 }],
    [strip, { width: 1024, height: 20, fit: 'inside' }, { height: 20 }],
    [strip, { width: 20, height: 20, fit: 'outside' }, { width: 20, height: 4000 }],
    [strip, { width: 1024, height: 10, fit: 'contain' }, { width: 1024, height: 10 }],
    [strip, { width: 21, fit: 'fill' }, { width: 21, height: 2000 }],
    [turned, { height: 20 }, { width: 4000, height: 20 }],
    [turned, { width: 21 }, { width: 21, height: 1 }],
    [await sample(10, 5000).png().toBuffer(), { format: 'webp' }, { width: 10, height: 5000 }]
  ] as const
  for (const [original, transform, expected] of accepted) {
    const { bytes } = await transformImage(stream(original), transform)
    t.match(await sharp(bytes).metadata(), expected, JSON.stringify(transform))
  }
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
