/**
 * Amounts in the minor units of the payment providers, so that a change has the same amount as a checkout. Stripe documents them at
 * https://docs.stripe.com/currencies, and Polar follows Stripe. The digits of `Intl` are those of displayed prices, and differ.
 */

/** Only whole units. */
const zeroDecimal = new Set([
  'BIF', 'CLP', 'DJF', 'GNF', 'JPY', 'KMF', 'KRW', 'MGA', 'PYG', 'RWF', 'VND', 'VUV', 'XAF', 'XOF', 'XPF'
])
/** Whole units too, but sent as hundredths. */
const wholeHundredths = new Set(['ISK', 'UGX'])
/** Thousandths, whose last digit must be 0. Stripe does not list IQD and LYD, which have thousandths by ISO 4217. */
const threeDecimal = new Set(['BHD', 'IQD', 'JOD', 'KWD', 'LYD', 'OMR', 'TND'])

/** @param currency the ISO 4217 code in capitals */
export function minorUnits (price: number, currency: string): number {
  if (zeroDecimal.has(currency)) return Math.round(price)
  if (wholeHundredths.has(currency)) return Math.round(price) * 100
  if (threeDecimal.has(currency)) return Math.round(price * 100) * 10
  return Math.round(price * 100)
}
