/**
 * What a regular expression can cost. JavaScript's engine backtracks: a repeat within a repeat takes exponential time,
 * and every other choice multiplies the time by the number of its ways. A tenant's patterns are therefore held to a
 * form whose worst case can be told before any text is seen.
 */

const maxSteps = 10_000_000 // of the engine, on the worst text
const maxLength = 500 // characters of a pattern

/** Why a pattern costs too much on texts of at most `length` characters, or null. The pattern must compile with the `u` flag. */
export function patternCost (pattern: string, length: number): string | null {
  if (pattern.length > maxLength) return `a pattern has at most ${maxLength} characters`
  const steps = worstCase(pattern, length)
  if (typeof steps === 'string') return steps
  return steps <= maxSteps ? null : `the pattern takes too long on some texts of ${length} characters: set a smaller \`maxLength\`, begin it with ^, or repeat less`
}

interface Group {
  /** A repeat, an option or an alternation stands in it. */
  varies: boolean
  alternatives: number
}

/** The steps for the worst text, or what makes them unknown. */
function worstCase (pattern: string, length: number): number | string {
  const outermost: Group = { varies: false, alternatives: 1 }
  const groups = [outermost]
  let closed: Group | undefined // the group that ended right before the current position
  let steps = 1
  for (let position = 0; position < pattern.length;) {
    const group = groups.at(-1) ?? outermost
    const quantifier = quantifierAt(pattern, position)
    if (quantifier !== null) {
      const { least, most } = quantifier
      if (closed?.varies === true && most > 1) return 'a group that repeats must hold no repeat, no option and no alternation'
      if (most > least) {
        steps *= Math.min(most, length) - Math.min(least, length) + 1
        for (const outer of groups) outer.varies = true
      }
      closed = undefined
      position += quantifier.length
      continue
    }
    closed = undefined
    switch (pattern.charAt(position)) {
      case '\\':
        if (/[1-9k]/.test(pattern.charAt(position + 1))) return 'a pattern may not refer back to a group'
        position += 2
        break
      case '[':
        position = classEnd(pattern, position)
        break
      case '(': {
        if (/^\(\?<?[=!]/.test(pattern.slice(position, position + 4))) return 'a pattern may not look ahead or behind'
        groups.push({ varies: false, alternatives: 1 })
        position += /^\((?:\?(?:<[^>]*>|[a-z-]*:))?/.exec(pattern.slice(position))?.[0].length ?? 1
        break
      }
      case ')':
        closed = groups.pop()
        steps *= closed?.alternatives ?? 1
        position++
        break
      case '|':
        group.alternatives++
        for (const outer of groups) outer.varies = true
        position++
        break
      default:
        position++
    }
  }
  // Without an anchor the engine starts anew at each character.
  const anchored = pattern.startsWith('^') && outermost.alternatives === 1
  return steps * outermost.alternatives * (anchored ? 1 : length)
}

function quantifierAt (pattern: string, position: number): { length: number, least: number, most: number } | null {
  const found = /^(?:[*+?]|\{(\d+)(,(\d*))?\})\??/.exec(pattern.slice(position, position + 40))
  if (found === null) return null
  const [text, least, range, most] = found
  const { length } = text
  if (least === undefined) return { length, least: text.startsWith('+') ? 1 : 0, most: text.startsWith('?') ? 1 : Infinity }
  if (range === undefined) return { length, least: Number(least), most: Number(least) }
  return { length, least: Number(least), most: most === undefined || most === '' ? Infinity : Number(most) }
}

function classEnd (pattern: string, start: number): number {
  let position = start + 1
  while (position < pattern.length && pattern.charAt(position) !== ']') position += pattern.charAt(position) === '\\' ? 2 : 1
  return position + 1
}
