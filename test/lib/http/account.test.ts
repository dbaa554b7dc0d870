import t from 'tap'
import { addressKey } from '../../../lib/http/account.js'

t.test('an IPv4 address is its own key, in every notation', async (t) => {
  t.equal(addressKey('10.1.2.3'), '10.1.2.3')
  t.equal(addressKey('::ffff:10.1.2.3'), '10.1.2.3')
  t.equal(addressKey('::FFFF:10.1.2.3'), '10.1.2.3')
})

t.test('an IPv4-mapped address has the key of its IPv4 address, in every notation', async (t) => {
  for (
    const address of [
      '::ffff:505:506',
      '::FFFF:0505:0506',
      '0:0:0:0:0:ffff:5.5.5.6',
      '0:0:0:0:0:ffff:505:506',
      '0000:0000:0000:0000:0000:ffff:0505:0506',
      '0::ffff:5.5.5.6',
      '::0:ffff:505:506',
      '::ffff:5.5.5.6%eth0',
      '[::ffff:505:506]:4711',
      '[0:0::ffff:5.5.5.6]'
    ]
  ) {
    t.equal(addressKey(address), '5.5.5.6', address)
  }
  t.equal(addressKey('::ffff:ffff:ffff'), '255.255.255.255')
  t.equal(addressKey('::ffff:0:0'), '0.0.0.0')
  for (const address of ['::5.5.5.6', '::ffff:0:505:506', '::1:ffff:505:506', '::fffe:505:506']) {
    t.equal(addressKey(address), '0:0:0:0::/64', `${address} is not IPv4-mapped`)
  }
  t.equal(addressKey('1::ffff:505:506'), '1:0:0:0::/64')
})

t.test('IPv6 addresses of one /64 are one client, those of two are two', async (t) => {
  const key = '2001:db8:0:1::/64'
  for (
    const address of [
      '2001:db8:0:1::1',
      '2001:db8:0:1:ffff:ffff:ffff:ffff',
      '2001:0DB8:0000:0001::',
      '2001:db8::1:0:0:10.1.2.3',
      '2001:db8:0:1::5%eth0',
      '2001:db8:0:1:2:3:4::',
      '2001:db8:0:1:2:3:10.1.2.3'
    ]
  ) {
    t.equal(addressKey(address), key, address)
  }
  t.not(addressKey('2001:db8:0:2::1'), key)
  t.equal(addressKey('::1'), '0:0:0:0::/64')
  t.equal(addressKey('fe80::1%lo'), 'fe80:0:0:0::/64')
})

t.test('a port is not part of the address', async (t) => {
  t.equal(addressKey('10.1.2.3:4711'), '10.1.2.3')
  t.equal(addressKey('[2001:db8:0:1::1]:4711'), '2001:db8:0:1::/64')
  t.equal(addressKey('[2001:db8:0:1::1]'), '2001:db8:0:1::/64')
})

t.test('a text that is not an address is still a client', async (t) => {
  t.equal(addressKey(undefined), 'unknown')
  t.equal(addressKey('proxy'), 'proxy')
  t.equal(addressKey('a:b'), 'a:b')
  t.equal(addressKey('x'.repeat(10_000)).length, 45, 'of bounded length')
  t.equal(addressKey(':'.repeat(10_000)).length, 45)
})
