/** Positions in texts: expressions count characters (code points), JavaScript counts UTF-16 units, of which a character has one or two. */
import { lengthOf } from '../../json/plain-value.js'
import type { Budget } from './frame.js'

/** One step counts the characters of eight units. */
const pairShift = 3

/** The first unit of a pair. The engine answers without a pass for texts of Latin letters. */
const firstOfPair = /[\ud800-\udbff]/

/** Whether every unit is a character. The caller charges one pass. */
export function isWithoutPairs (text: string): boolean {
  return !firstOfPair.test(text)
}

/** The number of characters. */
export function sizeOf (text: string, budget: Budget): bigint {
  budget.spend(1 + (text.length >>> pairShift))
  return BigInt(lengthOf(text))
}

/** The position in characters of a position in units, which may be -1. */
export function characterAt (text: string, unit: number, budget: Budget): bigint {
  if (unit <= 0) return BigInt(unit)
  budget.scan(unit)
  const before = text.slice(0, unit)
  return isWithoutPairs(before) ? BigInt(unit) : sizeOf(before, budget)
}

/** The unit that is so many characters after `start`; Infinity beyond the end. The caller charges one pass over these characters. */
export function unitAfter (text: string, start: number, characters: number, budget: Budget): number {
  if (start + characters > text.length) return Infinity
  if (characters === 0 || isWithoutPairs(text.slice(start, start + characters))) return start + characters
  budget.spend(1 + (2 * characters >>> pairShift))
  let unit = start
  for (let left = characters; left > 0; left--) {
    if (unit >= text.length) return Infinity
    unit += unitsAt(text, unit)
  }
  return unit
}

/** The units of the character that begins at a unit. */
export function unitsAt (text: string, unit: number): 1 | 2 {
  const isPair = (text.charCodeAt(unit) & 0xfc00) === 0xd800 && (text.charCodeAt(unit + 1) & 0xfc00) === 0xdc00
  return isPair ? 2 : 1
}
