<?php
// Answers with the variables of its request that every web server sets, and with what PHP made of them.
header('Content-Type: application/json');
header('Cache-Control: ' . ($_GET['cache'] ?? 'no-store'));
$seen = [];
foreach ($_SERVER as $name => $value) {
    if (!in_array($name, ['USER', 'HOME', 'PATH', 'PWD', 'REQUEST_TIME', 'REQUEST_TIME_FLOAT', 'FCGI_ROLE', 'argv', 'argc'])) {
        $seen[$name] = is_string($value) ? $value : json_encode($value);
    }
}
ksort($seen);
echo json_encode(['file' => __FILE__, 'server' => $seen, 'get' => $_GET, 'post' => $_POST, 'files' => $_FILES,
    'body' => strlen(file_get_contents('php://input'))], JSON_INVALID_UTF8_SUBSTITUTE | JSON_UNESCAPED_SLASHES | JSON_PARTIAL_OUTPUT_ON_ERROR);
