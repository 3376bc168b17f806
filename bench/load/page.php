<?php
// The page of the benchmark.
$page = __DIR__ . '/../page.html';
header('Content-Type: text/html');
header('Content-Length: ' . filesize($page));
header('Cache-Control: no-store');
readfile($page);
