    # Names of objects, contexts and namespaces, for arguments that are names.
    $words = @($commandElements | Select-Object -Skip 1 |
        Where-Object { $_.Extent.StartOffset -lt $cursorPosition } | ForEach-Object { $_.ToString() })
    $complete = @('internal', 'complete')
    # An empty word is not passed to a program.
    if ($wordToComplete -eq '') { $complete += '--next' }
    $names = @(& ferroplane @complete '--' @words 2>$null)
    if ($names.Count -gt 0) {
        return $names | ForEach-Object {
            [CompletionResult]::new($_, $_, [CompletionResultType]::ParameterValue, $_)
        }
    }

