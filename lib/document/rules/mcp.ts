/** Checks of the section `mcp` beyond its schema: its address, and the arguments of its prompts. */
import type { Mcp } from '../../schema/mcp.js'
import { nearest, type FaultList } from '../../schema/faults.js'

/** An argument within the text of a prompt. */
export const placeholder = /\{\{\s*([A-Za-z0-9_-]{1,64})\s*\}\}/g

export function checkMcp ({ url, prompts = [] }: Mcp, faults: FaultList): void {
  if (!isOrigin(url)) faults.add('/mcp/url', 'expected a URL without a path, in lower case: `https://api.example.com`')
  for (const [index, { name, text, arguments: args = [] }] of prompts.entries()) {
    const at = `/mcp/prompts/${index}`
    if (prompts.findIndex((other) => other.name === name) < index) faults.add(`${at}/name`, 'duplicate name')
    const names = args.map((argument) => argument.name)
    for (const [position, argument] of names.entries()) {
      if (names.indexOf(argument) < position) faults.add(`${at}/arguments/${position}/name`, 'duplicate name')
    }
    const unknown = new Set(
      Array.from(text.matchAll(placeholder), ([, argument = '']) => argument).filter((argument) => !names.includes(argument))
    )
    for (const argument of unknown) faults.add(`${at}/text`, `the prompt has no argument "${argument}"`, nearest(argument, names))
  }
}

function isOrigin (text: string): boolean {
  return /^https?:\/\//.test(text) && URL.canParse(text) && new URL(text).origin === text
}
