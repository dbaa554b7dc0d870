/** The otpauth URI for an authenticator app, and its QR code. */
import { grouped, digits, stepSeconds } from './codes.js'

// Encoded characters. With both at their longest, the QR code is of version 17, which phones can read from a screen.
const maxIssuer = 96
const maxAccount = 192

export interface Enrolment {
  /** Base32. */
  readonly secret: string
  /** The QR code of the URI: a PNG as a data URL. */
  readonly qrCode: string
  /** The secret in groups of four, for apps that cannot scan. */
  readonly manualEntry: string
}

/** @param account the displayed name of the user */
export async function enrolmentOf (secret: string, issuer: string, account: string): Promise<Enrolment> {
  // Few servers ever draw one, and each would slow the start.
  const { default: qr } = await import('qrcode')
  const png = await qr.toBuffer(uriOf(secret, issuer, account), {
    type: 'png',
    errorCorrectionLevel: 'M',
    rendererOpts: { deflateLevel: 6 }
  })
  return { secret, qrCode: `data:image/png;base64,${png.toString('base64')}`, manualEntry: grouped(secret, ' ') }
}

/** The URI in the form that apps expect: the issuer in the label and as a parameter, a space as `%20`. */
export function uriOf (secret: string, issuer: string, account: string): string {
  const name = encoded(issuer, maxIssuer)
  return `otpauth://totp/${name}:${encoded(account, maxAccount)}?secret=${secret}&issuer=${name}&algorithm=SHA1&digits=${digits}&period=${stepSeconds}`
}

/** Percent-encoded, as many characters as fit. Apps take the text before a colon for the issuer, encoded or not. */
function encoded (text: string, max: number): string {
  let done = ''
  for (const character of text.replaceAll(/[:\p{Cc}]/gu, '-')) {
    // A lone surrogate has no encoding.
    const next = /\p{Cs}/u.test(character) ? '-' : encodeURIComponent(character)
    if (done.length + next.length > max) break
    done += next
  }
  return done
}
